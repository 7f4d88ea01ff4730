// Unsigned integers of more than 128 bits, as little-endian 64-bit words. Only what bits.h needs of a number.
#pragma once

#include <cstdint>

namespace p4 {

template <int N>
struct Wide {
  uint64_t w[N]{};

  constexpr Wide() = default;
  constexpr Wide(uint64_t low) { w[0] = low; }  // NOLINT: as the built-in integers convert
  constexpr explicit Wide(const uint64_t (&words)[N]) {
    for (int i = 0; i < N; ++i) w[i] = words[i];
  }

  static constexpr Wide ones(int bits) {
    Wide r;
    for (int i = 0; i < N; ++i) {
      int left = bits - 64 * i;
      r.w[i] = left >= 64 ? ~0ull : left > 0 ? (1ull << left) - 1 : 0;
    }
    return r;
  }
  constexpr explicit operator uint64_t() const { return w[0]; }
  constexpr explicit operator bool() const {
    for (int i = 0; i < N; ++i)
      if (w[i]) return true;
    return false;
  }
  constexpr Wide operator~() const {
    Wide r;
    for (int i = 0; i < N; ++i) r.w[i] = ~w[i];
    return r;
  }
  constexpr Wide operator&(const Wide& o) const {
    Wide r;
    for (int i = 0; i < N; ++i) r.w[i] = w[i] & o.w[i];
    return r;
  }
  constexpr Wide operator|(const Wide& o) const {
    Wide r;
    for (int i = 0; i < N; ++i) r.w[i] = w[i] | o.w[i];
    return r;
  }
  constexpr Wide operator^(const Wide& o) const {
    Wide r;
    for (int i = 0; i < N; ++i) r.w[i] = w[i] ^ o.w[i];
    return r;
  }
  constexpr Wide operator+(const Wide& o) const {
    Wide r;
    unsigned __int128 carry = 0;
    for (int i = 0; i < N; ++i) {
      carry += w[i];
      carry += o.w[i];
      r.w[i] = static_cast<uint64_t>(carry);
      carry >>= 64;
    }
    return r;
  }
  constexpr Wide operator-(const Wide& o) const { return *this + ~o + Wide(1); }
  constexpr Wide operator*(const Wide& o) const {
    Wide r;
    for (int i = 0; i < N; ++i) {
      unsigned __int128 carry = 0;
      for (int j = 0; i + j < N; ++j) {
        carry += static_cast<unsigned __int128>(w[i]) * o.w[j] + r.w[i + j];
        r.w[i + j] = static_cast<uint64_t>(carry);
        carry >>= 64;
      }
    }
    return r;
  }
  constexpr Wide operator<<(int s) const {
    Wide r;
    int words = s / 64, bits = s % 64;
    for (int i = N - 1; i >= words; --i) {
      r.w[i] = w[i - words] << bits;
      if (bits && i > words) r.w[i] |= w[i - words - 1] >> (64 - bits);
    }
    return r;
  }
  constexpr Wide operator>>(int s) const {
    Wide r;
    int words = s / 64, bits = s % 64;
    for (int i = 0; i + words < N; ++i) {
      r.w[i] = w[i + words] >> bits;
      if (bits && i + words + 1 < N) r.w[i] |= w[i + words + 1] << (64 - bits);
    }
    return r;
  }
  constexpr bool operator==(const Wide& o) const {
    for (int i = 0; i < N; ++i)
      if (w[i] != o.w[i]) return false;
    return true;
  }
  constexpr bool operator<(const Wide& o) const {
    for (int i = N - 1; i >= 0; --i)
      if (w[i] != o.w[i]) return w[i] < o.w[i];
    return false;
  }
  // Schoolbook division, bit by bit: division of wide values is rare. Division by zero gives zero.
  constexpr Wide divide(const Wide& o, Wide& rest) const {
    Wide q;
    rest = Wide();
    if (!static_cast<bool>(o)) return q;
    for (int i = 64 * N - 1; i >= 0; --i) {
      rest = rest << 1;
      rest.w[0] |= (w[i / 64] >> (i % 64)) & 1;
      if (!(rest < o)) {
        rest = rest - o;
        q.w[i / 64] |= 1ull << (i % 64);
      }
    }
    return q;
  }
  constexpr Wide operator/(const Wide& o) const {
    Wide rest;
    return divide(o, rest);
  }
  constexpr Wide operator%(const Wide& o) const {
    Wide rest;
    divide(o, rest);
    return rest;
  }
};

}  // namespace p4
