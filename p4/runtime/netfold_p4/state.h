// Registers, counters and meters: state that outlives a packet.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
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
  uint64_t* stride;  // bytes from one element to the next
  const void* initial;
  uint64_t count;
  int element_bytes;
};

// Reads out of bounds give zero, writes out of bounds do nothing (v1model leaves the value open; BMv2 logs it).
// Has no memory until a RegisterMemory gives it some.
template <class T>
class Register {
 public:
  explicit Register(uint64_t size, T initial = T{}) : size_(size), initial_(initial) {}
  void read(T& out, uint64_t index) const {
    const T value = index < size_ ? *at(index) : T{};
    NETFOLD_TRACE_ACCESS("read", data_, index, size_, &value, &value, sizeof(T));
    out = value;
  }
  void write(uint64_t index, T value) {
    NETFOLD_TRACE_ACCESS("write", data_, index, size_, at(index), &value, sizeof(T));
    if (index < size_) *at(index) = value;
  }
  RegisterView view() { return {&data_, &stride_, &initial_, size_, int(sizeof(T))}; }

 private:
  T* at(uint64_t index) const { return reinterpret_cast<T*>(static_cast<char*>(data_) + index * stride_); }

  void* data_ = nullptr;
  uint64_t stride_ = sizeof(T);
  uint64_t size_;
  T initial_;
};

// The memory of a program's registers. Arrays of the same length lie interleaved, element i of all of them side by
// side: a program that keeps a record in as many arrays as it has fields (an aggregator in thirty and more) finds it in
// a few cache lines instead of one for each field. Pages that are never written stay unused.
class RegisterMemory {
 public:
  explicit RegisterMemory(std::vector<RegisterView>& registers) {
    std::map<uint64_t, std::vector<RegisterView*>> by_length;
    for (RegisterView& one : registers) by_length[one.count].push_back(&one);
    for (auto& [count, group] : by_length) {
      // The largest elements first, so that each is aligned.
      std::stable_sort(group.begin(), group.end(), [](const RegisterView* x, const RegisterView* y) {
        return alignment(*x) > alignment(*y);
      });
      uint64_t stride = 0;
      for (const RegisterView* one : group) stride += rounded(uint64_t(one->element_bytes), alignment(*one));
      stride = rounded(stride, alignment(*group.front()));
      if (count == 0) continue;
      if (count > ~0ull / stride) throw std::bad_alloc();
      blocks_.emplace_back(static_cast<char*>(std::calloc(count, stride)));
      if (!blocks_.back()) throw std::bad_alloc();
      char* at = blocks_.back().get();
      for (RegisterView* one : group) {
        *one->data = at;
        *one->stride = stride;
        fill(*one);
        at += rounded(uint64_t(one->element_bytes), alignment(*one));
      }
    }
  }

 private:
  struct Free {
    void operator()(char* block) const { std::free(block); }
  };
  static uint64_t alignment(const RegisterView& one) {
    uint64_t most = 1;
    while (most < 16 && uint64_t(one.element_bytes) % (2 * most) == 0) most *= 2;
    return most;
  }
  static uint64_t rounded(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }
  static void fill(const RegisterView& one) {
    const auto* from = static_cast<const char*>(one.initial);
    if (std::all_of(from, from + one.element_bytes, [](char c) { return c == 0; })) return;
    for (uint64_t i = 0; i < one.count; ++i)
      std::memcpy(static_cast<char*>(*one.data) + i * *one.stride, from, size_t(one.element_bytes));
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
