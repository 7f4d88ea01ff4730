// Time in picoseconds and small shared helpers. 100 Gb/s is exactly 80 ps per byte, so serialisation does not round.
#ifndef NETFOLD_UNITS_H
#define NETFOLD_UNITS_H

#include <cstdint>
#include <limits>

namespace netfold
{

using Ps = std::int64_t;

inline constexpr Ps kNever = std::numeric_limits<Ps>::max();
inline constexpr Ps kPsPerNs = 1000;
inline constexpr std::uint32_t kNone = 0xFFFFFFFFu;

// splitmix64 finaliser (Steele et al., OOPSLA 2014): a good 64-bit mix for ECMP hashes and counter-based random numbers.
inline std::uint64_t
Mix64(std::uint64_t x)
{
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// A counter-based stream: the same numbers on every machine, one stream per purpose.
class Random
{
  public:
    Random(std::uint64_t seed, std::uint64_t stream)
        : m_state(Mix64(seed ^ Mix64(stream + 1)))
    {
    }

    std::uint64_t Next()
    {
        return Mix64(m_state++);
    }

    double Uniform() // in [0, 1)
    {
        return static_cast<double>(Next() >> 11) * 0x1.0p-53;
    }

    std::uint32_t Below(std::uint32_t bound) // in [0, bound)
    {
        return static_cast<std::uint32_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
    }

  private:
    std::uint64_t m_state;
};

} // namespace netfold

#endif
