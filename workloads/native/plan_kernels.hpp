// Shared pieces of the plan kernels: array types, ownership of results, and the seeded generator.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace netfold {

namespace nb = nanobind;

template <typename T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A result array that owns its memory; allocated without initialisation, since most are written once, whole.
template <typename T>
struct Buffer {
    std::unique_ptr<T[]> data;
    std::size_t size = 0;

    Buffer() = default;
    explicit Buffer(std::size_t n) : data(new T[n]), size(n) {}
    T& operator[](std::size_t i) { return data[i]; }
    const T& operator[](std::size_t i) const { return data[i]; }

    // Hand the memory to numpy. Call with the GIL held.
    nb::ndarray<nb::numpy, T, nb::ndim<1>> to_numpy() {
        T* raw = data.release();
        nb::capsule owner(raw, [](void* p) noexcept { delete[] static_cast<T*>(p); });
        return nb::ndarray<nb::numpy, T, nb::ndim<1>>(raw, {size}, owner);
    }
};

// splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): the same sequence on
// every platform and library version, which numpy and <random> do not promise.
struct SplitMix64 {
    std::uint64_t state;
    std::uint64_t next() {
        std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }
    // Uniform below n by the high half of a product; the bias is below n / 2^64.
    std::uint64_t below(std::uint64_t n) {
        return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
    }
};

template <typename T>
void shuffle(T* first, std::size_t n, SplitMix64& random) {
    for (std::size_t i = n; i > 1; --i) {
        std::size_t j = random.below(i);
        T held = first[i - 1];
        first[i - 1] = first[j];
        first[j] = held;
    }
}

void bind_plan_graph(nb::module_& m);
void bind_plan_order(nb::module_& m);
void bind_plan_split(nb::module_& m);
void bind_plan_thin(nb::module_& m);

}  // namespace netfold
