// Stochastic quantisation of message rows and its inverse (SYLVIE, section 6), packed to 1, 2, 4 or 8 bits a value.
// One pass per row while it is in the first-level cache: range, rounding, packing. Rounding draws from Philox4x32-10
// (Salmon et al., SC 2011), 16 bits a value, counted by (row, column), so that any instruction set gives the same bytes.
// The layout of a message is that of workloads/training/message.py.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "arrays.hpp"

// The same source compiled for wider vectors, chosen when the module is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define NETFOLD_WIDE __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define NETFOLD_WIDE
#endif
#define NETFOLD_INLINE [[gnu::always_inline]] inline

namespace netfold {
namespace {

constexpr int kLanes = 16;           // Philox blocks at a time
constexpr int kStride = kLanes * 8;  // a block of four words rounds eight values
constexpr std::array<int, 4> kWidths{1, 2, 4, 8};

std::size_t packed_bytes(std::size_t width, int bits) { return (width * bits + 7) / 8; }

// 16 random bits for each of columns at..at+127 of a row, as eight words of two values for each lane.
NETFOLD_INLINE void philox(std::uint32_t at, std::uint64_t row, std::uint64_t seed, std::uint16_t* out) {
    std::uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
    for (int i = 0; i < kLanes; ++i) {
        c0[i] = at / 8 + i;
        c1[i] = 0;
        c2[i] = static_cast<std::uint32_t>(row);
        c3[i] = static_cast<std::uint32_t>(row >> 32);
    }
    auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        for (int i = 0; i < kLanes; ++i) {
            const std::uint64_t a = static_cast<std::uint64_t>(c0[i]) * 0xD2511F53U;
            const std::uint64_t b = static_cast<std::uint64_t>(c2[i]) * 0xCD9E8D57U;
            c0[i] = static_cast<std::uint32_t>(b >> 32) ^ c1[i] ^ k0;
            c2[i] = static_cast<std::uint32_t>(a >> 32) ^ c3[i] ^ k1;
            c1[i] = static_cast<std::uint32_t>(b);
            c3[i] = static_cast<std::uint32_t>(a);
        }
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    // Word w of lane i serves columns at + 32 w + i and at + 32 w + 16 + i.
    const std::uint32_t* words[4] = {c0, c1, c2, c3};
    for (int w = 0; w < 4; ++w)
        for (int i = 0; i < kLanes; ++i) {
            out[2 * kLanes * w + i] = static_cast<std::uint16_t>(words[w][i]);
            out[2 * kLanes * w + kLanes + i] = static_cast<std::uint16_t>(words[w][i] >> 16);
        }
}

template <typename T>
struct Range {
    T low, high;
    bool finite;
};

template <typename T>
NETFOLD_INLINE Range<T> range_of(const T* row, std::size_t width) {
    using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr Word magnitude = std::numeric_limits<Word>::max() >> 1;
    const auto infinite = std::bit_cast<Word>(std::numeric_limits<T>::infinity());
    T low[kLanes], high[kLanes];
    Word bad[kLanes];
    for (int i = 0; i < kLanes; ++i) {
        low[i] = std::numeric_limits<T>::infinity();
        high[i] = -low[i];
        bad[i] = 0;
    }
    const auto take = [&](T x, int i) {
        low[i] = x < low[i] ? x : low[i];
        high[i] = x > high[i] ? x : high[i];
        bad[i] |= (std::bit_cast<Word>(x) & magnitude) >= infinite;
    };
    std::size_t at = 0;
    for (; at + kLanes <= width; at += kLanes)
        for (int i = 0; i < kLanes; ++i) take(row[at + i], i);
    for (; at < width; ++at) take(row[at], 0);
    Range<T> range{low[0], high[0], bad[0] == 0};
    for (int i = 1; i < kLanes; ++i) {
        range.low = std::min(range.low, low[i]);
        range.high = std::max(range.high, high[i]);
        range.finite &= bad[i] == 0;
    }
    return range;
}

// 8 / bits levels to a byte, the first in the lowest bits. `levels` is padded with zeros to whole bytes.
NETFOLD_INLINE void pack(const std::uint8_t* levels, std::size_t bytes, int bits, std::uint8_t* out) {
    if (bits == 8) {
        std::memcpy(out, levels, bytes);
    } else if (bits == 4) {
        for (std::size_t i = 0; i < bytes; ++i)
            out[i] = static_cast<std::uint8_t>(levels[2 * i] | levels[2 * i + 1] << 4);
    } else if (bits == 2) {
        for (std::size_t i = 0; i < bytes; ++i) {
            std::uint32_t four;
            std::memcpy(&four, levels + 4 * i, 4);
            out[i] = static_cast<std::uint8_t>(four | four >> 6 | four >> 12 | four >> 18);
        }
    } else {
        for (std::size_t i = 0; i < bytes; ++i) {
            std::uint64_t eight;
            std::memcpy(&eight, levels + 8 * i, 8);
            out[i] = static_cast<std::uint8_t>(eight * 0x0102040810204080ULL >> 56);
        }
    }
}

// The inverse; writes 8 / bits levels for each byte.
NETFOLD_INLINE void unpack(const std::uint8_t* packed, std::size_t bytes, int bits, std::uint8_t* levels) {
    const int per_byte = 8 / bits;
    const std::uint8_t mask = static_cast<std::uint8_t>((1 << bits) - 1);
    for (std::size_t i = 0; i < bytes; ++i)
        for (int j = 0; j < per_byte; ++j)
            levels[per_byte * i + j] = static_cast<std::uint8_t>(packed[i] >> (bits * j)) & mask;
}

// One row: its minimum and scale to meta, its packed levels to out. False when it is not finite.
template <typename T>
NETFOLD_INLINE bool encode_row(const T* row, std::size_t width, int bits, std::uint64_t index, std::uint64_t seed,
                               std::uint8_t* meta, std::uint8_t* out) {
    const Range<T> range = range_of(row, width);
    const T most = static_cast<T>((1 << bits) - 1);
    const T scale = (range.high - range.low) / most;
    if (!range.finite || !std::isfinite(scale)) return false;
    std::memcpy(meta, &range.low, sizeof(T));
    std::memcpy(meta + sizeof(T), &scale, sizeof(T));
    const T low = range.low, divisor = scale > 0 ? scale : 1;
    const std::size_t bytes_per_stride = kStride * bits / 8, bytes = packed_bytes(width, bits);
    std::uint16_t random[kStride];
    std::uint8_t levels[kStride];
    for (std::size_t at = 0, done = 0; at < width; at += kStride, done += bytes_per_stride) {
        philox(static_cast<std::uint32_t>(at), index, seed, random);
        const std::size_t count = std::min<std::size_t>(kStride, width - at);
        T values[kStride];
        const T* from = row + at;
        if (count < kStride) {  // the padding quantises to zero
            std::fill(values, values + kStride, low);
            std::copy(from, from + count, values);
            from = values;
        }
        for (int i = 0; i < kStride; ++i) {
            const T step = (from[i] - low) / divisor;
            const T uniform = (static_cast<T>(random[i]) + static_cast<T>(0.5)) * static_cast<T>(1.0 / 65536);
            const T raised = std::min(step + uniform, most);
            levels[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(raised));
        }
        for (std::size_t i = count; i < kStride; ++i) levels[i] = 0;
        pack(levels, std::min(bytes_per_stride, bytes - done), bits, out + done);
    }
    return true;
}

template <typename T>
NETFOLD_INLINE void decode_row(const std::uint8_t* packed, std::size_t width, int bits, const std::uint8_t* meta,
                               T* row) {
    T low, scale;
    std::memcpy(&low, meta, sizeof(T));
    std::memcpy(&scale, meta + sizeof(T), sizeof(T));
    const std::size_t bytes_per_stride = kStride * bits / 8, bytes = packed_bytes(width, bits);
    std::uint8_t levels[kStride];
    for (std::size_t at = 0, done = 0; at < width; at += kStride, done += bytes_per_stride) {
        const std::size_t count = std::min<std::size_t>(kStride, width - at);
        unpack(packed + done, std::min(bytes_per_stride, bytes - done), bits, levels);
        for (std::size_t i = 0; i < count; ++i) row[at + i] = low + scale * static_cast<T>(levels[i]);
    }
}

template <typename T>
NETFOLD_INLINE bool encode_rows(const T* rows, const std::uint8_t* bits, std::size_t count, std::size_t width,
                                std::uint64_t seed, std::uint8_t* out) {
    std::uint8_t* meta = out;
    std::uint8_t* body = out + 2 * sizeof(T) * count;
    bool finite = true;
    for (const int b : kWidths) {
        for (std::size_t i = 0; i < count && finite; ++i) {
            if (bits[i] != b) continue;
            switch (b) {  // a constant width lets the compiler vectorise each
                case 1: finite = encode_row(rows + i * width, width, 1, i, seed, meta, body); break;
                case 2: finite = encode_row(rows + i * width, width, 2, i, seed, meta, body); break;
                case 4: finite = encode_row(rows + i * width, width, 4, i, seed, meta, body); break;
                default: finite = encode_row(rows + i * width, width, 8, i, seed, meta, body);
            }
            meta += 2 * sizeof(T);
            body += packed_bytes(width, b);
        }
    }
    return finite;
}

template <typename T>
NETFOLD_INLINE void decode_rows(const std::uint8_t* message, const std::uint8_t* bits, std::size_t count,
                                std::size_t width, T* rows) {
    const std::uint8_t* meta = message;
    const std::uint8_t* body = message + 2 * sizeof(T) * count;
    for (const int b : kWidths) {
        for (std::size_t i = 0; i < count; ++i) {
            if (bits[i] != b) continue;
            switch (b) {
                case 1: decode_row(body, width, 1, meta, rows + i * width); break;
                case 2: decode_row(body, width, 2, meta, rows + i * width); break;
                case 4: decode_row(body, width, 4, meta, rows + i * width); break;
                default: decode_row(body, width, 8, meta, rows + i * width);
            }
            meta += 2 * sizeof(T);
            body += packed_bytes(width, b);
        }
    }
}

NETFOLD_WIDE bool encode_any(const float* rows, const std::uint8_t* bits, std::size_t count, std::size_t width,
                             std::uint64_t seed, std::uint8_t* out) {
    return encode_rows(rows, bits, count, width, seed, out);
}
NETFOLD_WIDE bool encode_any(const double* rows, const std::uint8_t* bits, std::size_t count, std::size_t width,
                             std::uint64_t seed, std::uint8_t* out) {
    return encode_rows(rows, bits, count, width, seed, out);
}
NETFOLD_WIDE void decode_any(const std::uint8_t* message, const std::uint8_t* bits, std::size_t count,
                             std::size_t width, float* rows) {
    decode_rows(message, bits, count, width, rows);
}
NETFOLD_WIDE void decode_any(const std::uint8_t* message, const std::uint8_t* bits, std::size_t count,
                             std::size_t width, double* rows) {
    decode_rows(message, bits, count, width, rows);
}

template <typename T>
using Rows = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The bytes of a message; throws where the widths are not those of the rows or not 1, 2, 4 or 8.
std::size_t message_bytes(const In<std::uint8_t>& bits, std::size_t count, std::size_t width, std::size_t value) {
    if (bits.size() != count) throw std::invalid_argument("bits: one width per row is needed");
    std::size_t total = 2 * value * count;
    for (std::size_t i = 0; i < count; ++i) {
        const int b = bits.data()[i];
        if (b != 1 && b != 2 && b != 4 && b != 8)
            throw std::invalid_argument("bits: " + std::to_string(b) + " given; allowed: 1, 2, 4, 8");
        total += packed_bytes(width, b);
    }
    return total;
}

// rows: T[n, D]; bits: uint8[n] of 1, 2, 4, 8; out: the message, uint8[sum of ceil(D bits / 8) + 2 sizeof(T) n].
// Returns false, with `out` unspecified, when a row holds NaN or infinity or its range overflows.
template <typename T>
bool quantise_message(Rows<const T> rows, In<std::uint8_t> bits, std::uint64_t seed, Bytes out) {
    const std::size_t count = rows.shape(0), width = rows.shape(1);
    if (out.size() != message_bytes(bits, count, width, sizeof(T)))
        throw std::invalid_argument("out: not of the message's size");
    const nb::gil_scoped_release others_run;
    return encode_any(rows.data(), bits.data(), count, width, seed, out.data());
}

// The inverse, into rows: T[n, D].
template <typename T>
void dequantise_message(In<std::uint8_t> message, In<std::uint8_t> bits, Rows<T> rows) {
    const std::size_t count = rows.shape(0), width = rows.shape(1);
    if (message.size() != message_bytes(bits, count, width, sizeof(T)))
        throw std::invalid_argument("message: not of the rows' size");
    const nb::gil_scoped_release others_run;
    decode_any(message.data(), bits.data(), count, width, rows.data());
}

}  // namespace

void bind_quantise(nb::module_& m) {
    m.def("quantise_message", &quantise_message<float>);
    m.def("quantise_message", &quantise_message<double>);
    m.def("dequantise_message", &dequantise_message<float>);
    m.def("dequantise_message", &dequantise_message<double>);
}

}  // namespace netfold
