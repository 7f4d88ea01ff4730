// Registers, counters and meters: state that outlives a packet.
#pragma once

#include <vector>

#include "bits.h"

#ifndef NETFOLD_TRACE_ACCESS
#define NETFOLD_TRACE_ACCESS(...)  // a tracing build records what is read and written (trace.h)
#endif

namespace p4 {

// What the control plane sees of a register array: raw elements.
struct RegisterView {
  void* data;
  uint64_t count;
  int element_bytes;
};

// Reads out of bounds give zero, writes out of bounds do nothing (v1model leaves the value open; BMv2 logs it).
template <class T>
class Register {
 public:
  explicit Register(uint64_t size, T initial = T{}) : values_(size, initial) {}
  void read(T& out, uint64_t index) const {
    const T value = index < values_.size() ? values_[index] : T{};
    NETFOLD_TRACE_ACCESS("read", values_.data(), index, values_.size(), &value, &value, sizeof(T));
    out = value;
  }
  void write(uint64_t index, T value) {
    NETFOLD_TRACE_ACCESS("write", values_.data(), index, values_.size(), values_.data() + index, &value, sizeof(T));
    if (index < values_.size()) values_[index] = value;
  }
  RegisterView view() { return {values_.data(), values_.size(), int(sizeof(T))}; }

 private:
  std::vector<T> values_;
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
