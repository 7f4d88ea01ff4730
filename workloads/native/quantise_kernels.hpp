// The loops of quantise.cpp, included once per instruction set (quantise_baseline.cpp, _avx2, _avx512) with NETFOLD_ISA
// as the namespace. Nothing here but builtins and memcpy is shared code: an inline function of std:: compiled for
// one instruction set could be linked into another. Compiled with -ffp-contract=off, so that all give the same bytes.
//
// One pass per row while it is in the first-level cache: range, rounding, packing. Rounding draws from Threefry4x32-12
// (Salmon et al., SC 2011: additions and rotations only, which every vector unit has), 16 bits a value, counted by
// (row, column).
#include <cstring>

#include "quantise_isa.hpp"

namespace netfold::NETFOLD_ISA {
namespace {

constexpr int kLanes = 16;           // Threefry blocks at a time
constexpr int kStride = kLanes * 8;  // a block of four words rounds eight values
constexpr int kWidths[] = {1, 2, 4, 8};

template <typename T>
struct Bits;
template <>
struct Bits<float> {
    using Word = std::uint32_t;
    static constexpr Word infinite = 0x7f800000U;
};
template <>
struct Bits<double> {
    using Word = std::uint64_t;
    static constexpr Word infinite = 0x7ff0000000000000ULL;
};

inline void mix(std::uint32_t& a, std::uint32_t& b, int turn) {
    a += b;
    b = (b << turn | b >> (32 - turn)) ^ a;
}

// 16 random bits for each of columns at..at+127 of a row: lane i is the block counted (at / 8 + i, row).
inline void threefry(std::uint32_t at, std::uint64_t row, std::uint64_t seed, std::uint16_t* out) {
    const auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    const std::uint32_t k4 = 0x1BD11BDAU ^ k0 ^ k1;  // k2 and k3 are zero
    const auto low = static_cast<std::uint32_t>(row), high = static_cast<std::uint32_t>(row >> 32);
    std::uint32_t words[4][kLanes];
    for (int i = 0; i < kLanes; ++i) {  // straight-line code per lane, so that lanes become vectors
        std::uint32_t a = at / 8 + i + k0, b = low + k1, c = high, d = 0;
        mix(a, b, 10), mix(c, d, 26), mix(a, d, 11), mix(c, b, 21);
        mix(a, b, 13), mix(c, d, 27), mix(a, d, 23), mix(c, b, 5);
        a += k1, d += k4 + 1;
        mix(a, b, 6), mix(c, d, 20), mix(a, d, 17), mix(c, b, 11);
        mix(a, b, 25), mix(c, d, 10), mix(a, d, 18), mix(c, b, 20);
        c += k4, d += k0 + 2;
        mix(a, b, 10), mix(c, d, 26), mix(a, d, 11), mix(c, b, 21);
        mix(a, b, 13), mix(c, d, 27), mix(a, d, 23), mix(c, b, 5);
        b += k4, c += k0, d += k1 + 3;
        words[0][i] = a, words[1][i] = b, words[2][i] = c, words[3][i] = d;
    }
    std::memcpy(out, words, sizeof words);
}

template <typename T>
struct Range {
    T low, high;
    bool finite;
};

template <typename T>
inline Range<T> range_of(const T* __restrict row, std::size_t width) {
    using Word = typename Bits<T>::Word;
    T low[2 * kLanes], high[2 * kLanes];
    Word bad[2 * kLanes];
    const T first = row[0];
    for (int i = 0; i < 2 * kLanes; ++i) low[i] = high[i] = first, bad[i] = 0;
    std::size_t at = 0;
    for (; at + 2 * kLanes <= width; at += 2 * kLanes)
        for (int i = 0; i < 2 * kLanes; ++i) {
            const T x = row[at + i];
            low[i] = x < low[i] ? x : low[i];
            high[i] = x > high[i] ? x : high[i];
            const Word magnitude = __builtin_bit_cast(Word, x) & ~Word{} >> 1;
            bad[i] = magnitude > bad[i] ? magnitude : bad[i];
        }
    for (int i = 0; at < width; ++at, ++i) {
        const T x = row[at];
        low[i] = x < low[i] ? x : low[i];
        high[i] = x > high[i] ? x : high[i];
        const Word magnitude = __builtin_bit_cast(Word, x) & ~Word{} >> 1;
        bad[i] = magnitude > bad[i] ? magnitude : bad[i];
    }
    for (int i = 1; i < 2 * kLanes; ++i) {
        low[0] = low[i] < low[0] ? low[i] : low[0];
        high[0] = high[i] > high[0] ? high[i] : high[0];
        bad[0] = bad[i] > bad[0] ? bad[i] : bad[0];
    }
    return {low[0], high[0], bad[0] < Bits<T>::infinite};
}

// 8 / bits levels to a byte, the first in the lowest bits.
template <int bits>
inline void pack(const std::uint8_t* __restrict levels, std::size_t bytes, std::uint8_t* __restrict out) {
    for (std::size_t i = 0; i < bytes; ++i) {
        if constexpr (bits == 8) {
            out[i] = levels[i];
        } else if constexpr (bits == 4) {
            out[i] = static_cast<std::uint8_t>(levels[2 * i] | levels[2 * i + 1] << 4);
        } else if constexpr (bits == 2) {
            std::uint32_t four;
            std::memcpy(&four, levels + 4 * i, 4);
            out[i] = static_cast<std::uint8_t>(four | four >> 6 | four >> 12 | four >> 18);
        } else {
            std::uint64_t eight;
            std::memcpy(&eight, levels + 8 * i, 8);
            out[i] = static_cast<std::uint8_t>(eight * 0x0102040810204080ULL >> 56);
        }
    }
}

// The inverse; writes 8 / bits levels for each byte.
template <int bits>
inline void unpack(const std::uint8_t* __restrict packed, std::size_t bytes, std::uint8_t* __restrict levels) {
    for (std::size_t i = 0; i < bytes; ++i) {
        if constexpr (bits == 8) {
            levels[i] = packed[i];
        } else if constexpr (bits == 4) {
            levels[2 * i] = packed[i] & 15;
            levels[2 * i + 1] = packed[i] >> 4;
        } else if constexpr (bits == 2) {
            const std::uint32_t byte = packed[i];
            const std::uint32_t four = (byte | byte << 6 | byte << 12 | byte << 18) & 0x03030303U;
            std::memcpy(levels + 4 * i, &four, 4);
        } else {
            // Bit j of the byte to byte j: copy it to bytes 7, 14 .. apart so that bit j lands on the top of one.
            const std::uint64_t byte = packed[i];
            const std::uint64_t low = (byte & 15) * 0x0000000000204081ULL & 0x01010101ULL;
            const std::uint64_t high = (byte >> 4) * 0x0000000000204081ULL & 0x01010101ULL;
            const std::uint64_t eight = low | high << 32;
            std::memcpy(levels + 8 * i, &eight, 8);
        }
    }
}

// One row: its minimum and scale to meta, its packed levels to out. False when it is not finite.
template <typename T, int bits>
inline bool encode_row(const T* __restrict row, std::size_t width, std::uint64_t index, std::uint64_t seed,
                       std::uint8_t* __restrict meta, std::uint8_t* __restrict out) {
    const Range<T> range = range_of(row, width);
    constexpr T most = (1 << bits) - 1;
    const T low = range.low, scale = (range.high - low) / most;
    if (!range.finite || __builtin_bit_cast(typename Bits<T>::Word, scale) >= Bits<T>::infinite) return false;
    std::memcpy(meta, &low, sizeof(T));
    std::memcpy(meta + sizeof(T), &scale, sizeof(T));
    const T divisor = scale > 0 ? scale : 1;
    constexpr std::size_t stride_bytes = kStride * bits / 8;
    for (std::size_t at = 0; at < width; at += kStride, out += stride_bytes) {
        std::uint16_t random[kStride];
        std::uint8_t levels[kStride];
        T values[kStride];
        threefry(static_cast<std::uint32_t>(at), index, seed, random);
        const std::size_t count = width - at < kStride ? width - at : kStride;
        for (std::size_t i = 0; i < count; ++i) values[i] = row[at + i];
        for (std::size_t i = count; i < kStride; ++i) values[i] = low;
        for (int i = 0; i < kStride; ++i) {
            const T uniform = (static_cast<T>(static_cast<std::int32_t>(random[i])) + T{0.5}) * T{1.0 / 65536};
            const T raised = (values[i] - low) / divisor + uniform;
            levels[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(raised < most ? raised : most));
        }
        for (std::size_t i = count; i < kStride; ++i) levels[i] = 0;  // the last byte is padded with zeros
        pack<bits>(levels, count == kStride ? stride_bytes : (count * bits + 7) / 8, out);
    }
    return true;
}

template <typename T, int bits>
inline void decode_row(const std::uint8_t* __restrict packed, std::size_t width, const std::uint8_t* __restrict meta,
                       T* __restrict row) {
    T low, scale;
    std::memcpy(&low, meta, sizeof(T));
    std::memcpy(&scale, meta + sizeof(T), sizeof(T));
    constexpr std::size_t stride_bytes = kStride * bits / 8;
    for (std::size_t at = 0; at < width; at += kStride, packed += stride_bytes) {
        std::uint8_t levels[kStride];
        if (width - at >= kStride) {
            unpack<bits>(packed, stride_bytes, levels);
            for (int i = 0; i < kStride; ++i) row[at + i] = low + scale * static_cast<T>(std::int32_t{levels[i]});
        } else {
            unpack<bits>(packed, ((width - at) * bits + 7) / 8, levels);
            for (std::size_t i = at; i < width; ++i) row[i] = low + scale * static_cast<T>(std::int32_t{levels[i - at]});
        }
    }
}

template <typename T, int bits>
bool encode_width(const T* rows, const std::uint8_t* widths, std::size_t count, std::size_t width, std::uint64_t seed,
                  std::uint8_t*& meta, std::uint8_t*& body) {
    for (std::size_t i = 0; i < count; ++i) {
        if (widths[i] != bits) continue;
        if (!encode_row<T, bits>(rows + i * width, width, i, seed, meta, body)) return false;
        meta += 2 * sizeof(T);
        body += (width * bits + 7) / 8;
    }
    return true;
}

template <typename T>
bool encode(const T* rows, const std::uint8_t* widths, std::size_t count, std::size_t width, std::uint64_t seed,
            std::uint8_t* out) {
    std::uint8_t *meta = out, *body = out + 2 * sizeof(T) * count;
    return encode_width<T, 1>(rows, widths, count, width, seed, meta, body) &&
           encode_width<T, 2>(rows, widths, count, width, seed, meta, body) &&
           encode_width<T, 4>(rows, widths, count, width, seed, meta, body) &&
           encode_width<T, 8>(rows, widths, count, width, seed, meta, body);
}

template <typename T, int bits>
void decode_width(const std::uint8_t* widths, std::size_t count, std::size_t width, T* rows,
                  const std::uint8_t*& meta, const std::uint8_t*& body) {
    for (std::size_t i = 0; i < count; ++i) {
        if (widths[i] != bits) continue;
        decode_row<T, bits>(body, width, meta, rows + i * width);
        meta += 2 * sizeof(T);
        body += (width * bits + 7) / 8;
    }
}

template <typename T>
void decode(const std::uint8_t* message, const std::uint8_t* widths, std::size_t count, std::size_t width, T* rows) {
    const std::uint8_t *meta = message, *body = message + 2 * sizeof(T) * count;
    decode_width<T, 1>(widths, count, width, rows, meta, body);
    decode_width<T, 2>(widths, count, width, rows, meta, body);
    decode_width<T, 4>(widths, count, width, rows, meta, body);
    decode_width<T, 8>(widths, count, width, rows, meta, body);
}

}  // namespace

extern const QuantiseKernels kernels{encode<float>, encode<double>, decode<float>, decode<double>};

}  // namespace netfold::NETFOLD_ISA
