// The quantiser's loops as each instruction set has them (quantise_kernels.hpp); quantise.cpp chooses one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace netfold {

// rows: T[count, width]; widths: uint8[count] of 1, 2, 4, 8. encode returns false where a row is not finite.
struct QuantiseKernels {
    template <typename T>
    using Encode = bool (*)(const T* rows, const std::uint8_t* widths, std::size_t count, std::size_t width,
                            std::uint64_t seed, std::uint8_t* message);
    template <typename T>
    using Decode = void (*)(const std::uint8_t* message, const std::uint8_t* widths, std::size_t count,
                            std::size_t width, T* rows);
    Encode<float> encode_float;
    Encode<double> encode_double;
    Decode<float> decode_float;
    Decode<double> decode_double;
};

namespace baseline {
extern const QuantiseKernels kernels;
}
namespace avx2 {
extern const QuantiseKernels kernels;
}
namespace avx512 {
extern const QuantiseKernels kernels;
}

}  // namespace netfold
