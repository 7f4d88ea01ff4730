// Stochastic quantisation of message rows and its inverse (SYLVIE, section 6), packed to 1, 2, 4 or 8 bits a value.
// The loops are in quantise_kernels.hpp; the layout of a message is that of workloads/training/message.py.
#include "quantise_isa.hpp"

#include <nanobind/stl/string.h>

#include <cstring>
#include <stdexcept>
#include <string>

#include "arrays.hpp"

namespace netfold {
namespace {

struct Choice {
    const char* name;
    const QuantiseKernels* kernels;
};

Choice choose() {
#ifdef NETFOLD_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4")) return {"avx512", &avx512::kernels};
    if (__builtin_cpu_supports("x86-64-v3")) return {"avx2", &avx2::kernels};
#endif
    return {"baseline", &baseline::kernels};
}

Choice chosen = choose();

// For tests: every instruction set must give the same bytes. Throws where this processor lacks it.
void use_quantiser(const std::string& name) {
    const Choice best = choose();
    const std::string able = best.name;
    if (name == "baseline") {
        chosen = {"baseline", &baseline::kernels};
#ifdef NETFOLD_X86
    } else if (name == "avx2" && able != "baseline") {
        chosen = {"avx2", &avx2::kernels};
#endif
    } else if (name == able) {
        chosen = best;
    } else {
        throw std::invalid_argument("quantiser: " + name + " given; this processor allows up to " + able);
    }
}

std::size_t packed_bytes(std::size_t width, int bits) { return (width * bits + 7) / 8; }

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
    if (width == 0) return true;
    if constexpr (sizeof(T) == sizeof(float))
        return chosen.kernels->encode_float(rows.data(), bits.data(), count, width, seed, out.data());
    else
        return chosen.kernels->encode_double(rows.data(), bits.data(), count, width, seed, out.data());
}

// The inverse, into rows: T[n, D].
template <typename T>
void dequantise_message(In<std::uint8_t> message, In<std::uint8_t> bits, Rows<T> rows) {
    const std::size_t count = rows.shape(0), width = rows.shape(1);
    if (message.size() != message_bytes(bits, count, width, sizeof(T)))
        throw std::invalid_argument("message: not of the rows' size");
    const nb::gil_scoped_release others_run;
    if constexpr (sizeof(T) == sizeof(float))
        chosen.kernels->decode_float(message.data(), bits.data(), count, width, rows.data());
    else
        chosen.kernels->decode_double(message.data(), bits.data(), count, width, rows.data());
}

}  // namespace

void bind_quantise(nb::module_& m) {
    m.def("quantise_message", &quantise_message<float>);
    m.def("quantise_message", &quantise_message<double>);
    m.def("dequantise_message", &dequantise_message<float>);
    m.def("dequantise_message", &dequantise_message<double>);
    m.def("use_quantiser", &use_quantiser);
    m.def("quantiser", [] { return std::string(chosen.name); });
}

}  // namespace netfold
