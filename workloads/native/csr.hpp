// CSR of a simple symmetric graph, built from edge lists that come in chunks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace netfold {

struct Csr {
    std::vector<std::int64_t> indptr;
    std::vector<std::int32_t> indices;
};

template <typename T>
struct Pairs {
    const T* source;
    const T* target;
    std::size_t count;
};

// Symmetrises, drops self loops, merges duplicates, sorts rows. Chunks come as a list so that a reader that
// streams a file never concatenates what it has read. Throws std::out_of_range on an id outside 0..n-1.
template <typename T>
Csr build_csr(const std::vector<Pairs<T>>& chunks, std::int64_t n);

}  // namespace netfold
