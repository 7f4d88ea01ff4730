// P4's bit<W> and int<W>: the width is part of the type, so a generated expression that mixes widths does not
// compile. Both hold their W-bit pattern; int<W> reads it as two's complement.
#pragma once

#include <cstdint>
#include <type_traits>

#include "wide.h"

namespace p4 {

using u128 = unsigned __int128;

template <int W>
using rep = std::conditional_t<
    W <= 8, uint8_t,
    std::conditional_t<
        W <= 16, uint16_t,
        std::conditional_t<W <= 32, uint32_t,
                           std::conditional_t<W <= 64, uint64_t,
                                              std::conditional_t<W <= 128, u128, Wide<(W + 63) / 64>>>>>>;

// All W low bits set.
template <int W>
constexpr rep<W> ones() {
  if constexpr (W == 0) {
    return 0;
  } else if constexpr (W <= 128) {
    return static_cast<rep<W>>(static_cast<rep<W>>(~rep<W>(0)) >> (int(sizeof(rep<W>)) * 8 - W));
  } else {
    return rep<W>::ones(W);
  }
}

template <int W, bool Signed>
struct number {
  using R = rep<W>;
  static constexpr int width = W;
  R v{};

  constexpr number() = default;
  constexpr explicit number(R pattern) : v(static_cast<R>(pattern & ones<W>())) {}

  constexpr bool negative() const {
    if constexpr (!Signed || W == 0) return false;
    else return static_cast<bool>(static_cast<R>(v >> (W - 1)) & R(1));
  }
  // The low 64 bits: an index, a length, a port.
  constexpr uint64_t u64() const { return static_cast<uint64_t>(v); }

  constexpr number operator+(number o) const { return number(static_cast<R>(v + o.v)); }
  constexpr number operator-(number o) const { return number(static_cast<R>(v - o.v)); }
  constexpr number operator*(number o) const {
    if constexpr (W <= 16) return number(static_cast<R>(uint32_t(v) * uint32_t(o.v)));
    else return number(static_cast<R>(v * o.v));
  }
  constexpr number operator/(number o) const { return o.v == R(0) ? number() : number(static_cast<R>(v / o.v)); }
  constexpr number operator%(number o) const { return o.v == R(0) ? number() : number(static_cast<R>(v % o.v)); }
  constexpr number operator&(number o) const { return number(static_cast<R>(v & o.v)); }
  constexpr number operator|(number o) const { return number(static_cast<R>(v | o.v)); }
  constexpr number operator^(number o) const { return number(static_cast<R>(v ^ o.v)); }
  constexpr number operator~() const { return number(static_cast<R>(~v)); }
  constexpr number operator-() const { return number(static_cast<R>(R(0) - v)); }

  constexpr bool operator==(number o) const { return v == o.v; }
  constexpr bool operator!=(number o) const { return !(v == o.v); }
  constexpr bool operator<(number o) const {
    if constexpr (Signed && W > 0) {
      const R sign = static_cast<R>(R(1) << (W - 1));
      return static_cast<R>(v ^ sign) < static_cast<R>(o.v ^ sign);
    } else {
      return v < o.v;
    }
  }
  constexpr bool operator>(number o) const { return o < *this; }
  constexpr bool operator<=(number o) const { return !(o < *this); }
  constexpr bool operator>=(number o) const { return !(*this < o); }

  constexpr number shl(uint64_t by) const { return by >= uint64_t(W) ? number() : number(static_cast<R>(v << int(by))); }
  constexpr number shr(uint64_t by) const {
    const number fill = negative() ? number(ones<W>()) : number();
    if (by >= uint64_t(W)) return fill;
    if (by == 0) return *this;
    return number(static_cast<R>(v >> int(by))) | fill.upper(int(by));
  }
  // Only the `count` highest bits kept.
  constexpr number upper(int count) const { return number(static_cast<R>(v & static_cast<R>(ones<W>() << (W - count)))); }
};

template <int W> using bit = number<W, false>;
template <int W> using sint = number<W, true>;

// An amount of more than 64 bits shifts everything out.
template <int W>
constexpr uint64_t shift_amount(bit<W> b) {
  if constexpr (W > 64) {
    if (!(b.v < rep<W>(1) << 32)) return ~0ull;
  }
  return b.u64();
}
template <int W>
constexpr uint64_t shift_amount(sint<W> b) {
  return b.u64();
}
template <int W, bool S, class B>
constexpr number<W, S> shl(number<W, S> a, B b) { return a.shl(shift_amount(b)); }
template <int W, bool S, class B>
constexpr number<W, S> shr(number<W, S> a, B b) { return a.shr(shift_amount(b)); }

template <int W, bool S>
constexpr number<W, S> sat_add(number<W, S> a, number<W, S> b) {
  const number<W, S> sum = a + b;
  if constexpr (!S) return sum < a ? number<W, S>(ones<W>()) : sum;
  else if constexpr (W == 0) return sum;
  else {
    using R = rep<W>;
    // Without branches, so that a loop of them is one of vectors.
    const R overflow = static_cast<R>(static_cast<R>(a.v ^ sum.v) & static_cast<R>(b.v ^ sum.v));
    const number<W, S> lowest(static_cast<R>(R(1) << (W - 1)));
    const number<W, S> end = a.negative() ? lowest : ~lowest;
    return number<W, S>(overflow).negative() ? end : sum;
  }
}
template <int W, bool S>
constexpr number<W, S> sat_sub(number<W, S> a, number<W, S> b) {
  const number<W, S> difference = a - b;
  if constexpr (!S) return a < b ? number<W, S>() : difference;
  if (a.negative() == b.negative() || difference.negative() == a.negative()) return difference;
  const number<W, S> lowest(static_cast<rep<W>>(rep<W>(1) << (W - 1)));
  return a.negative() ? lowest : ~lowest;
}

// One representation as another, cut or zero-extended.
template <int To, int From>
constexpr rep<To> resize(rep<From> v) {
  if constexpr (From <= 128 && To <= 128) {
    return static_cast<rep<To>>(v);
  } else if constexpr (From <= 128) {
    rep<To> r;
    r.w[0] = static_cast<uint64_t>(v);
    if constexpr (From > 64) r.w[1] = static_cast<uint64_t>(v >> 64);
    return r;
  } else if constexpr (To <= 128) {
    u128 low = v.w[0];
    if constexpr (To > 64) low |= static_cast<u128>(v.w[1]) << 64;
    return static_cast<rep<To>>(low);
  } else {
    rep<To> r;
    for (int i = 0; i < (To + 63) / 64 && i < (From + 63) / 64; ++i) r.w[i] = v.w[i];
    return r;
  }
}

// A written cast to T: same width with another sign, or same sign with another width.
template <class T, int W, bool S>
constexpr T cast(number<W, S> a) {
  T r(resize<T::width, W>(a.v));
  if constexpr (S && T::width > W) {
    if (a.negative()) r = r | number<T::width, S>(ones<T::width>()).upper(T::width - W);
  }
  return r;
}

template <int H, int L, int W, bool S>
constexpr bit<H - L + 1> slice(number<W, S> a) {
  return bit<H - L + 1>(resize<H - L + 1, W>(static_cast<rep<W>>(a.v >> L)));
}
template <int H, int L, int W, bool S>
constexpr void set_slice(number<W, S>& a, bit<H - L + 1> value) {
  const rep<W> mask = static_cast<rep<W>>(resize<W, H - L + 1>(ones<H - L + 1>()) << L);
  a.v = static_cast<rep<W>>((a.v & static_cast<rep<W>>(~mask)) |
                            static_cast<rep<W>>(resize<W, H - L + 1>(value.v) << L));
}
// The same at a position known only at run time; what lies beyond the width reads zero and is not written.
template <int N, int W, bool S>
constexpr bit<N> slice_at(number<W, S> a, uint64_t low) {
  return bit<N>(resize<N, W>(number<W, false>(a.v).shr(low).v));
}
template <int N, int W, bool S>
constexpr void set_slice_at(number<W, S>& a, uint64_t low, bit<N> value) {
  const number<W, false> mask = number<W, false>(resize<W, N>(ones<N>())).shl(low);
  const number<W, false> put = number<W, false>(resize<W, N>(value.v)).shl(low);
  a.v = ((number<W, false>(a.v) & ~mask) | put).v;
}
template <int A, bool S, int B, bool S2>
constexpr number<A + B, S> concat(number<A, S> a, number<B, S2> b) {
  if constexpr (A == 0) return number<A + B, S>(resize<A + B, B>(b.v));
  else if constexpr (B == 0) return number<A + B, S>(resize<A + B, A>(a.v));
  else
    return number<A + B, S>(static_cast<rep<A + B>>(static_cast<rep<A + B>>(resize<A + B, A>(a.v) << B) |
                                                    resize<A + B, B>(b.v)));
}

}  // namespace p4
