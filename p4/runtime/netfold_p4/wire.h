// Bits on the wire: most significant first, at any bit offset.
#pragma once

#include <cstring>

#include "bits.h"

namespace p4 {

// `width` bits at bit offset `at`.
template <class T>
inline T load_at(const uint8_t* p, size_t at) {
  using R = typename T::R;
  constexpr int W = T::width;
  p += at / 8;
  int skip = int(at % 8);
  R r(0);
  for (int left = W; left > 0;) {
    const int take = left < 8 - skip ? left : 8 - skip;
    const unsigned chunk = (unsigned(*p) >> (8 - skip - take)) & ((1u << take) - 1);
    if constexpr (W <= 8) r = static_cast<R>((unsigned(r) << take) | chunk);
    else r = static_cast<R>(static_cast<R>(r << take) | R(chunk));
    left -= take;
    skip = 0;
    ++p;
  }
  return T(r);
}

template <class T>
inline void store_at(uint8_t* p, size_t at, T value) {
  constexpr int W = T::width;
  p += at / 8;
  int skip = int(at % 8);
  for (int left = W; left > 0;) {
    const int take = left < 8 - skip ? left : 8 - skip;
    const unsigned mask = ((1u << take) - 1) << (8 - skip - take);
    const unsigned chunk = unsigned(static_cast<uint64_t>(value.v >> (left - take))) << (8 - skip - take);
    *p = static_cast<uint8_t>((*p & ~mask) | (chunk & mask));
    left -= take;
    skip = 0;
    ++p;
  }
}

// The same with the offset known when compiling: whole words in one swap.
template <class T, size_t At>
inline T load(const uint8_t* p) {
  constexpr int W = T::width;
  if constexpr (At % 8 == 0 && (W == 8 || W == 16 || W == 32 || W == 64)) {
    typename T::R r;
    std::memcpy(&r, p + At / 8, sizeof r);
    if constexpr (W == 16) r = __builtin_bswap16(r);
    if constexpr (W == 32) r = __builtin_bswap32(r);
    if constexpr (W == 64) r = __builtin_bswap64(r);
    return T(r);
  } else if constexpr (At % 8 == 0 && W == 48) {
    return T(uint64_t(load<number<32, false>, At>(p).v) << 16 | load<number<16, false>, At + 32>(p).v);
  } else if constexpr (W > 0 && At % 8 + W <= 64) {
    constexpr int bytes = (At % 8 + W + 7) / 8;
    uint64_t r = 0;
    for (int i = 0; i < bytes; ++i) r = r << 8 | p[At / 8 + i];
    return T(static_cast<typename T::R>(r >> (bytes * 8 - int(At % 8) - W)));
  } else {
    return load_at<T>(p, At);
  }
}

template <class T, size_t At>
inline void store(uint8_t* p, T value) {
  constexpr int W = T::width;
  if constexpr (At % 8 == 0 && (W == 8 || W == 16 || W == 32 || W == 64)) {
    typename T::R r = value.v;
    if constexpr (W == 16) r = __builtin_bswap16(r);
    if constexpr (W == 32) r = __builtin_bswap32(r);
    if constexpr (W == 64) r = __builtin_bswap64(r);
    std::memcpy(p + At / 8, &r, sizeof r);
  } else if constexpr (At % 8 == 0 && W == 48) {
    store<number<32, false>, At>(p, number<32, false>(uint32_t(value.v >> 16)));
    store<number<16, false>, At + 32>(p, number<16, false>(uint16_t(value.v)));
  } else if constexpr (At % 8 == 0 && W % 8 == 0 && W < 64) {
    for (int i = 0; i < W / 8; ++i) p[At / 8 + i] = static_cast<uint8_t>(value.v >> (W - 8 - 8 * i));
  } else if constexpr (W > 0 && At % 8 + W <= 64) {
    constexpr int bytes = (At % 8 + W + 7) / 8, below = bytes * 8 - int(At % 8) - W;
    constexpr uint64_t mask = uint64_t(ones<W>()) << below;
    uint64_t r = 0;
    for (int i = 0; i < bytes; ++i) r = r << 8 | p[At / 8 + i];
    r = (r & ~mask) | uint64_t(value.v) << below;
    for (int i = 0; i < bytes; ++i) p[At / 8 + i] = uint8_t(r >> (8 * (bytes - 1 - i)));
  } else {
    store_at<T>(p, At, value);
  }
}

// A run of fields of whole bytes, 16, 32 or 64 bits each, that lie side by side in the packet and in the header: one
// loop of vectors.
template <class R>
inline R swapped(R r) {
  if constexpr (sizeof(R) == 2) return __builtin_bswap16(r);
  else if constexpr (sizeof(R) == 4) return __builtin_bswap32(r);
  else return __builtin_bswap64(r);
}
template <class R, int N>
inline void swap_run(void* to, const void* from) {
  R words[N];
  std::memcpy(words, from, sizeof words);
  for (int i = 0; i < N; ++i) words[i] = swapped(words[i]);
  std::memcpy(to, words, sizeof words);
}

// varbit<W>: up to W bits, left-aligned in its bytes.
template <int W>
struct varbit {
  uint8_t data[(W + 7) / 8 + 1]{};
  uint32_t bits = 0;

  bool operator==(const varbit& o) const {
    return bits == o.bits && std::memcmp(data, o.data, (bits + 7) / 8) == 0;
  }
  bool operator!=(const varbit& o) const { return !(*this == o); }
  void clear() { std::memset(data, 0, sizeof data); }
  void read(const uint8_t* p, size_t at, uint32_t count) {
    bits = count;
    clear();
    for (uint32_t i = 0; i < count; i += 8) {
      const uint32_t take = count - i < 8 ? count - i : 8;
      for (uint32_t j = 0; j < take; ++j) {
        const size_t from = at + i + j;
        data[i / 8] |= uint8_t(((p[from / 8] >> (7 - from % 8)) & 1) << (7 - j));
      }
    }
  }
  void write(uint8_t* p, size_t at) const {
    for (uint32_t i = 0; i < bits; ++i) {
      const size_t to = at + i;
      const unsigned one = (data[i / 8] >> (7 - i % 8)) & 1;
      p[to / 8] = uint8_t((p[to / 8] & ~(0x80u >> (to % 8))) | (one << (7 - to % 8)));
    }
  }
};

// Values at offsets known when compiling, in as many bytes as they need.
template <size_t Bits>
class Packed {
 public:
  template <size_t At, int W, bool S>
  void put(number<W, S> value) {
    store<number<W, S>, At>(data_, value);
  }
  const uint8_t* data() const { return data_; }
  size_t bytes() const { return (Bits + 7) / 8; }

 private:
  uint8_t data_[(Bits + 7) / 8 + 1]{};
};

// The internet checksum (RFC 1071) of values at offsets known when compiling, without writing them anywhere: a sum
// modulo 2^16 - 1 does not care which of the 16-bit words a value's high bits fall into.
class InternetSum {
 public:
  template <size_t At, int W, bool S>
  void put(number<W, S> value) {
    if constexpr (W > 48) {
      put<At>(slice<W - 1, 48>(value));
      put<At + W - 48>(slice<47, 0>(value));
    } else if constexpr (W > 0) {
      add(static_cast<uint64_t>(value.v) << (15 - (At + W + 15) % 16));
    }
  }
  uint16_t checksum() const {
    uint64_t sum = sum_;
    while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
    return uint16_t(~sum);
  }

 private:
  void add(uint64_t value) { sum_ += (value & 0xFFFFFFFF) + (value >> 32); }
  uint64_t sum_ = 0;
};

// Values written one after another, of any length: the input of a hash, a checksum or a digest.
class BitWriter {
 public:
  static constexpr size_t capacity = 65536;

  template <int W, bool S>
  void put(number<W, S> value) {
    if (room(W)) store_at(data_, bits_, value);
    bits_ += W;
  }
  void put(bool value) { put(bit<1>(value)); }
  template <int W>
  void put(const varbit<W>& value) {
    if (room(value.bits)) value.write(data_, bits_);
    bits_ += value.bits;
  }
  void put(const uint8_t* bytes, size_t count) {
    for (size_t i = 0; i < count; ++i) put(bit<8>(bytes[i]));
  }
  const uint8_t* data() const { return data_; }
  size_t bytes() const { return (bits_ + 7) / 8 < capacity ? (bits_ + 7) / 8 : capacity; }

 private:
  // The bytes are cleared as they are reached, not all of them each time.
  bool room(size_t count) {
    const size_t last = (bits_ + count + 7) / 8;
    if (last > capacity) return false;
    for (; cleared_ < last; ++cleared_) data_[cleared_] = 0;
    return true;
  }
  uint8_t data_[capacity];
  size_t bits_ = 0, cleared_ = 0;
};

}  // namespace p4
