// Attention over listed pairs, as each instruction set has it (attention_kernels.hpp); attention.cpp chooses one.
#pragma once

#include <cstdint>

namespace netfold {

constexpr int kClasses = 17;  // workloads/training/transformer/structure.py
constexpr int kOutside = 16;

// One head of r queries over n keys of w values. q: T[r, w]; k, v: T[n, w]; table: T[kClasses], the bias by class.
// Pairs: indptr int64[r+1], indices int32, ascending in a row, classes uint8. Tiles of `side`: tile_ptr
// int64[ceil(r/side)+1], tile_columns int32, tile_classes uint8[tiles, side keys, side queries],
// 0 where nothing attends.
// full: every pair attends, as kOutside where it is not listed; tiles are then left out.
template <typename T>
struct Head {
    const T* q;
    const T* k;
    const T* v;
    const T* table;
    std::int64_t rows, columns, width;
    const std::int64_t* indptr;
    const std::int32_t* indices;
    const std::uint8_t* classes;
    const std::int64_t* tile_ptr;
    const std::int32_t* tile_columns;
    const std::uint8_t* tile_classes;
    std::int64_t side;
    bool full;
};

// forward writes out T[r, w] and lse T[r], the logarithm of each query's sum of exponentials. backward reads them
// with grad T[r, w] and adds to dq T[r, w], dk and dv T[n, w], dtable T[kClasses].
template <typename T>
struct Gradients {
    const T* out;
    const T* lse;
    const T* grad;
    T* dq;
    T* dk;
    T* dv;
    T* dtable;
};

struct AttentionKernels {
    void (*forward_float)(const Head<float>&, float* out, float* lse);
    void (*forward_double)(const Head<double>&, double* out, double* lse);
    void (*backward_float)(const Head<float>&, const Gradients<float>&);
    void (*backward_double)(const Head<double>&, const Gradients<double>&);
};

namespace attention_baseline {
extern const AttentionKernels kernels;
}
namespace attention_avx2 {
extern const AttentionKernels kernels;
}
namespace attention_avx512 {
extern const AttentionKernels kernels;
}

}  // namespace netfold
