// The hash algorithms of v1model's HashAlgorithm, as BMv2 computes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

namespace p4 {

enum class Algorithm { crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16 };

// CRC tables of a reflected polynomial.
template <class T>
constexpr std::array<T, 256> crc_table(T reflected) {
  std::array<T, 256> table{};
  for (unsigned i = 0; i < 256; ++i) {
    T r = T(i);
    for (int k = 0; k < 8; ++k) r = T(r & 1 ? (r >> 1) ^ reflected : r >> 1);
    table[i] = r;
  }
  return table;
}

// CRC-16/ARC: polynomial 0x8005, reflected, starting at 0.
inline uint16_t crc16(const uint8_t* p, size_t n) {
  static constexpr auto table = crc_table<uint16_t>(0xA001);
  uint16_t r = 0;
  for (size_t i = 0; i < n; ++i) r = uint16_t(table[(r ^ p[i]) & 0xFF] ^ (r >> 8));
  return r;
}
// CRC-32 of Ethernet (IEEE 802.3).
inline uint32_t crc32(const uint8_t* p, size_t n) {
  static constexpr auto table = crc_table<uint32_t>(0xEDB88320u);
  uint32_t r = 0xFFFFFFFFu;
  for (size_t i = 0; i < n; ++i) r = table[(r ^ p[i]) & 0xFF] ^ (r >> 8);
  return ~r;
}
// The Internet checksum (RFC 1071), complemented.
inline uint16_t csum16(const uint8_t* p, size_t n) {
  uint64_t sum = 0;
  for (size_t i = 0; i + 1 < n; i += 2) sum += unsigned(p[i]) << 8 | p[i + 1];
  if (n % 2) sum += unsigned(p[n - 1]) << 8;
  while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
  return uint16_t(~sum);
}
inline uint16_t xor16(const uint8_t* p, size_t n) {
  unsigned r = 0;
  for (size_t i = 0; i + 1 < n; i += 2) r ^= unsigned(p[i]) << 8 | p[i + 1];
  if (n % 2) r ^= unsigned(p[n - 1]) << 8;
  return uint16_t(r);
}
// The first eight bytes as a number.
inline uint64_t identity(const uint8_t* p, size_t n) {
  uint64_t r = 0;
  for (size_t i = 0; i < n && i < 8; ++i) r = r << 8 | p[i];
  return r;
}

inline uint64_t hash_bytes(Algorithm algorithm, const uint8_t* p, size_t n, std::mt19937_64& random) {
  switch (algorithm) {
    case Algorithm::crc32:
    case Algorithm::crc32_custom: return crc32(p, n);
    case Algorithm::crc16:
    case Algorithm::crc16_custom: return crc16(p, n);
    case Algorithm::random: return random();
    case Algorithm::identity: return identity(p, n);
    case Algorithm::csum16: return csum16(p, n);
    case Algorithm::xor16: return xor16(p, n);
  }
  return 0;
}

}  // namespace p4
