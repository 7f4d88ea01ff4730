// The packet as parser and deparser see it, header stacks, and the errors that stop a parser.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "wire.h"

namespace p4 {

constexpr int max_parser_steps = 100000;

// Stops the parser: `code` is a value of the program's error type.
struct ParserError {
  uint16_t code;
};
// The errors of core.p4, in its order.
enum CoreError : uint16_t {
  no_error, packet_too_short, no_match, stack_out_of_bounds, header_too_short, parser_timeout, parser_invalid_argument
};

class PacketIn {
 public:
  PacketIn(const uint8_t* data, size_t bytes) : data_(data), bits_(bytes * 8) {}

  bit<32> length() const { return bit<32>(uint32_t(bits_ / 8)); }
  size_t consumed_bytes() const { return (at_ + 7) / 8; }

  template <class H>
  void extract(H& header) {
    need(H::fixed_bits);
    read(header, 0);
    at_ += H::fixed_bits;
  }
  template <class H>
  void extract(H& header, uint64_t varbits) {
    if (varbits > H::varbit_bits) throw ParserError{header_too_short};
    if ((H::fixed_bits + varbits) % 8 != 0) throw ParserError{parser_invalid_argument};
    need(H::fixed_bits + varbits);
    read(header, uint32_t(varbits));
    at_ += H::fixed_bits + varbits;
  }
  template <class H>
  void skip() {
    need(H::fixed_bits);
    at_ += H::fixed_bits;
  }
  void advance(uint64_t count) {
    need(count);
    at_ += count;
  }
  template <class T>
  T lookahead() {
    need(T::width);
    return load_at<T>(data_, at_);
  }
  template <class H>
  H lookahead_header() {
    need(H::fixed_bits);
    H header{};
    read(header, 0);
    return header;
  }

 private:
  void need(uint64_t count) const {
    if (count > bits_ - at_) throw ParserError{packet_too_short};
  }
  template <class H>
  void read(H& header, uint32_t varbits) {
    if (at_ % 8 == 0) {
      header.read(data_ + at_ / 8, varbits);
      return;
    }
    // Only after an advance() by a part of a byte: shift the header to a byte's start first.
    std::vector<uint8_t> copy((H::fixed_bits + varbits) / 8 + 2);
    for (size_t i = 0; i < H::fixed_bits + varbits; ++i) {
      const size_t from = at_ + i;
      if ((data_[from / 8] >> (7 - from % 8)) & 1) copy[i / 8] |= uint8_t(0x80u >> (i % 8));
    }
    header.read(copy.data(), varbits);
  }
  const uint8_t* data_;
  size_t bits_, at_ = 0;
};

// Leaves what it makes room for as it is, where std::allocator would clear it.
template <class T>
struct Uncleared : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = Uncleared<U>;
  };
  template <class U>
  void construct(U*) {}
  template <class U, class... Given>
  void construct(U* at, Given&&... given) {
    new (static_cast<void*>(at)) U(std::forward<Given>(given)...);
  }
};
using Bytes = std::vector<uint8_t, Uncleared<uint8_t>>;

inline void append(Bytes& to, const uint8_t* data, size_t bytes) {
  const size_t at = to.size();
  to.resize(at + bytes);
  if (bytes) std::memcpy(to.data() + at, data, bytes);
}
inline void assign(Bytes& to, const uint8_t* data, size_t bytes) {
  to.clear();
  append(to, data, bytes);
}

// Writes headers one after another into a buffer that grows.
class PacketOut {
 public:
  explicit PacketOut(Bytes& out) : out_(out) {}

  template <class H>
  void emit(const H& header) {
    if (!header.valid_) return;
    const size_t at = out_.size();
    const size_t bits = header.size_bits();
    out_.resize(at + (bits + 7) / 8);
    if (bits % 8 != 0) out_.back() = 0;
    header.write(out_.data() + at);
  }

 private:
  Bytes& out_;
};

// What a deparser emits, one header after another, before any of it becomes bytes.
class EmittedHeaders {
 public:
  using Write = void (*)(PacketOut&, const void*);
  struct Header {
    const void* at;
    Write write;  // tells its type too
  };

  template <class H>
  void emit(const H& header) {
    if (!header.valid_) return;
    headers_.push_back({&header, &write_header<H>});
    bytes_ += (header.size_bits() + 7) / 8;
  }
  void clear() {
    headers_.clear();
    bytes_ = 0;
  }
  const std::vector<Header>& headers() const { return headers_; }
  size_t bytes() const { return bytes_; }
  void write(Bytes& out) const {
    PacketOut packet(out);
    for (const Header& header : headers_) header.write(packet, header.at);
  }
  template <class H>
  static void write_header(PacketOut& packet, const void* header) {
    packet.emit(*static_cast<const H*>(header));
  }

 private:
  std::vector<Header> headers_;
  size_t bytes_ = 0;
};

// The packet as a parser sees it that extracts just those headers again, each as it is.
class HeadersIn {
 public:
  explicit HeadersIn(const EmittedHeaders& emitted) : next_(emitted.headers().begin()), end_(emitted.headers().end()) {}

  template <class H>
  void extract(H& header) {
    if (next_ == end_ || next_->write != &EmittedHeaders::write_header<H>) throw OtherHeaders{};
    header = *static_cast<const H*>(next_->at);
    ++next_;
  }
  bool at_end() const { return next_ == end_; }

  // Thrown where the parser extracts something else: the packet must become bytes after all.
  struct OtherHeaders {};

 private:
  std::vector<EmittedHeaders::Header>::const_iterator next_, end_;
};

// H[N]. An index out of bounds reads zeros and writes nowhere.
template <class H, int N>
struct Stack {
  H items[N]{};
  uint32_t next_index = 0;

  std::array<H, N> items_copy() const {
    std::array<H, N> out;
    std::copy(items, items + N, out.begin());
    return out;
  }
  H& at(uint64_t index) {
    if (index < N) return items[index];
    static thread_local H nowhere;
    nowhere = H{};
    return nowhere;
  }
  const H& at(uint64_t index) const { return const_cast<Stack*>(this)->at(index); }
  H& next() {
    if (next_index >= N) throw ParserError{stack_out_of_bounds};
    return items[next_index];
  }
  // After an extract into next().
  void advance() { ++next_index; }
  H& last() {
    if (next_index == 0) throw ParserError{stack_out_of_bounds};
    return items[next_index - 1];
  }
  bit<32> last_index() const { return bit<32>(next_index - 1); }
  void push_front(uint64_t count) {
    for (int i = N - 1; i >= 0; --i) items[i] = uint64_t(i) >= count ? items[i - int(count)] : H{};
    next_index = uint32_t(next_index + count < N ? next_index + count : N);
  }
  void pop_front(uint64_t count) {
    for (int i = 0; i < N; ++i) items[i] = i + count < N ? items[i + int(count)] : H{};
    next_index = uint32_t(count < next_index ? next_index - count : 0);
  }
  bool operator==(const Stack& o) const {
    for (int i = 0; i < N; ++i)
      if (!(items[i] == o.items[i])) return false;
    return true;
  }
  bool operator!=(const Stack& o) const { return !(*this == o); }
};

}  // namespace p4
