// Registers, counters and meters: state that outlives a packet.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <new>
#include <vector>

#include "bits.h"

#ifndef NETFOLD_TRACE_ACCESS
#define NETFOLD_TRACE_ACCESS(...)  // a tracing build records what is read and written (trace.h)
#endif

namespace p4 {

// What the control plane sees of a register array, and where it is told its place.
struct RegisterView {
  void** data;
  const void* initial;
  uint64_t count;
  uint64_t stride;  // bytes from one element to the next
  int element_bytes;
  int record;  // arrays of the same number lie interleaved
};

constexpr uint64_t cache_line = 64, large_page = 1 << 21;
constexpr uint64_t rounded_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }
constexpr uint64_t element_alignment(uint64_t bytes) {
  uint64_t most = 1;
  while (most < 16 && bytes % (2 * most) == 0) most *= 2;
  return most;
}
// From one element to the next of register arrays that lie interleaved; `element_bytes` of each.
constexpr uint64_t record_bytes(std::initializer_list<uint64_t> element_bytes) {
  uint64_t sum = 0, most = 1;
  for (const uint64_t bytes : element_bytes) {
    const uint64_t alignment = element_alignment(bytes);
    sum += rounded_up(bytes, alignment);
    most = alignment > most ? alignment : most;
  }
  return rounded_up(sum, most);
}

// Reads out of bounds give zero, writes out of bounds do nothing (v1model leaves the value open; BMv2 logs it).
// Has no memory until a RegisterMemory gives it some.
template <class T>
class Register {
 public:
  Register(uint64_t size, uint64_t stride, T initial) : size_(size), stride_(stride), initial_(initial) {}
  void read(T& out, uint64_t index) const { get(out, index, size_, stride_); }
  void write(uint64_t index, T value) { put(index, value, size_, stride_); }
  [[gnu::always_inline]] void prefetch(uint64_t index) const { load(index, size_, stride_); }
  RegisterView view(int record) { return {&data_, &initial_, size_, stride_, int(sizeof(T)), record}; }

 protected:
  T* at(uint64_t index, uint64_t stride) const {
    return reinterpret_cast<T*>(static_cast<char*>(data_) + index * stride);
  }
  // The element will be wanted, and what lies beside it. Inlined, as g++ takes a function that does nothing but prefetch
  // for one that does nothing.
  [[gnu::always_inline]] void load(uint64_t index, uint64_t size, uint64_t stride) const {
    if (index >= size) return;
    const char* first = reinterpret_cast<const char*>(at(index, stride));
    for (uint64_t behind = 0; behind < stride; behind += cache_line) __builtin_prefetch(first + behind, 1);
  }
  void get(T& out, uint64_t index, uint64_t size, uint64_t stride) const {
    const T value = index < size ? *at(index, stride) : T{};
    NETFOLD_TRACE_ACCESS("read", data_, index, size, &value, &value, sizeof(T));
    out = value;
  }
  void put(uint64_t index, T value, uint64_t size, uint64_t stride) {
    NETFOLD_TRACE_ACCESS("write", data_, index, size, at(index, stride), &value, sizeof(T));
    if (index < size) *at(index, stride) = value;
  }

 private:
  void* data_ = nullptr;
  uint64_t size_, stride_;
  T initial_;
};

// The same where the program names the array itself: size and stride are known when compiling.
template <class T, uint64_t Size, uint64_t Stride>
class RegisterArray : public Register<T> {
 public:
  explicit RegisterArray(T initial = T{}) : Register<T>(Size, Stride, initial) {}
  // Who reads one element of a record mostly wants others too, and a record's lines come sooner together.
  void read(T& out, uint64_t index) const {
    if constexpr (Stride > cache_line) prefetch(index);
    this->get(out, index, Size, Stride);
  }
  [[gnu::always_inline]] void prefetch(uint64_t index) const { this->load(index, Size, Stride); }
  void write(uint64_t index, T value) { this->put(index, value, Size, Stride); }
  // Null out of bounds.
  T* element(uint64_t index) { return index < Size ? this->at(index, Stride) : nullptr; }
};

// The memory of a program's registers. Arrays that a block reads at the same index lie interleaved (codegen/records.py),
// element i of all of them side by side: a program that keeps a record in as many arrays as it has fields (an aggregator
// in thirty and more) finds it in a few cache lines instead of one for each field. Their strides are record_bytes(). Pages
// that are never written stay unused.
class RegisterMemory {
 public:
  explicit RegisterMemory(std::vector<RegisterView>& registers) {
    std::map<int, std::vector<RegisterView*>> records;
    for (RegisterView& one : registers) records[one.record].push_back(&one);
    for (auto& [number, group] : records) {
      const uint64_t count = group.front()->count;
      // The largest elements first, so that each is aligned.
      std::stable_sort(group.begin(), group.end(), [](const RegisterView* x, const RegisterView* y) {
        return alignment(*x) > alignment(*y);
      });
      const uint64_t stride = group.front()->stride;
      if (count == 0) continue;
      if (count > (~0ull - large_page) / stride) throw std::bad_alloc();
      const uint64_t bytes = count * stride;
      // Those that outgrow the caches by far are read at random: fewer pages, fewer walks through their tables.
      const uint64_t alignment_bytes = bytes >= large_page ? large_page : cache_line;
      blocks_.emplace_back(static_cast<char*>(std::calloc(bytes + alignment_bytes, 1)));
      if (!blocks_.back()) throw std::bad_alloc();
      char* at = blocks_.back().get();
      at += (alignment_bytes - reinterpret_cast<uintptr_t>(at) % alignment_bytes) % alignment_bytes;
      if (alignment_bytes == large_page) madvise(at, bytes, MADV_HUGEPAGE);
      for (RegisterView* one : group) {
        *one->data = at;
        fill(*one);
        at += rounded_up(uint64_t(one->element_bytes), alignment(*one));
      }
    }
  }

 private:
  struct Free {
    void operator()(char* block) const { std::free(block); }
  };
  static uint64_t alignment(const RegisterView& one) { return element_alignment(uint64_t(one.element_bytes)); }
  static void fill(const RegisterView& one) {
    const auto* from = static_cast<const char*>(one.initial);
    if (std::all_of(from, from + one.element_bytes, [](char c) { return c == 0; })) return;
    for (uint64_t i = 0; i < one.count; ++i)
      std::memcpy(static_cast<char*>(*one.data) + i * one.stride, from, size_t(one.element_bytes));
  }

  std::vector<std::unique_ptr<char, Free>> blocks_;
};

class Counter {
 public:
  explicit Counter(uint64_t size) : packets_(size), bytes_(size) {}
  void count(uint64_t index, uint64_t bytes) {
    NETFOLD_TRACE_ACCESS("count", packets_.data(), index, packets_.size(), packets_.data() + index, &bytes, sizeof(bytes));
    if (index >= packets_.size()) return;
    ++packets_[index];
    bytes_[index] += bytes;
  }
  uint64_t size() const { return packets_.size(); }
  uint64_t* packets() { return packets_.data(); }
  uint64_t* bytes() { return bytes_.data(); }

 private:
  std::vector<uint64_t> packets_, bytes_;
};

// Two rates, three colours (RFC 2698, colour-blind). Rates in units (packets or bytes) per second.
struct MeterState {
  bool configured = false;
  double committed_rate = 0, committed_burst = 0, peak_rate = 0, peak_burst = 0;
  double committed = 0, peak = 0;
  uint64_t last_us = 0;

  void configure(double cir, double cbs, double pir, double pbs, uint64_t now_us) {
    *this = {true, cir, cbs, pir, pbs, cbs, pbs, now_us};
  }
  int execute(double units, uint64_t now_us) {
    if (!configured) return 0;
    if (now_us > last_us) {
      const double seconds = double(now_us - last_us) * 1e-6;
      committed = committed + committed_rate * seconds < committed_burst ? committed + committed_rate * seconds : committed_burst;
      peak = peak + peak_rate * seconds < peak_burst ? peak + peak_rate * seconds : peak_burst;
      last_us = now_us;
    }
    if (peak < units) return 2;
    peak -= units;
    if (committed < units) return 1;
    committed -= units;
    return 0;
  }
};

class Meter {
 public:
  Meter(uint64_t size, bool counts_bytes) : states_(size), counts_bytes_(counts_bytes) {}
  int execute(uint64_t index, uint64_t bytes, uint64_t now_us) {
    const int colour =
        index < states_.size() ? states_[index].execute(counts_bytes_ ? double(bytes) : 1.0, now_us) : 0;
    NETFOLD_TRACE_ACCESS("meter", this, index, states_.size(), &colour, &colour, sizeof(colour));
    return colour;
  }
  bool configure(uint64_t index, double cir, double cbs, double pir, double pbs, uint64_t now_us) {
    if (index >= states_.size()) return false;
    states_[index].configure(cir, cbs, pir, pbs, now_us);
    return true;
  }

 private:
  std::vector<MeterState> states_;
  bool counts_bytes_;
};

// A cell for each entry of a table.
struct DirectMeter : Meter {
  using Meter::Meter;
  int entry = -1;  // the one that the packet in hand hit
};

}  // namespace p4
