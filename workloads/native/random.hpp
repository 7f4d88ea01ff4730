// Counter-based random numbers: the i-th number of a stream depends on (seed, stream, i) alone, on every machine.
// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) read at any position; std:: distributions differ between libraries.
#pragma once

#include <cstdint>

namespace netfold {

constexpr std::uint64_t mix64(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

class CounterRandom {
public:
    CounterRandom(std::uint64_t seed, std::uint64_t stream)
        : key_(mix64(mix64(seed + kGolden) + (stream + 1) * kGolden)) {}

    std::uint64_t operator()(std::uint64_t counter) const { return mix64(key_ + (counter + 1) * kGolden); }

    // Uniform in 0..bound-1; the bias is below bound / 2^64.
    std::uint64_t below(std::uint64_t counter, std::uint64_t bound) const {
        return static_cast<std::uint64_t>((static_cast<unsigned __int128>((*this)(counter)) * bound) >> 64);
    }

private:
    static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
    std::uint64_t key_;
};

}  // namespace netfold
