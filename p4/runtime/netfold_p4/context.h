// What one packet's run through the pipeline needs besides its headers, and the externs that only set flags.
#pragma once

#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "hash.h"
#include "packet.h"
#include "profile.h"
#include "state.h"

namespace p4 {

constexpr int no_field_list = -1;
// Rounds of loops and states of parsers in one pass through ingress or egress; more of them have no end.
constexpr uint64_t max_steps_of_a_pass = uint64_t(1) << 20;

// Stops the pass: it took too many steps.
struct EndlessLoop {};

constexpr size_t max_log_lines = 10000;

// A number as log_msg() shows it: decimal, hexadecimal beyond 64 bits.
template <int W, bool S>
std::string to_text(number<W, S> n) {
  if constexpr (W <= 64) {
    if constexpr (S) return std::to_string(int64_t(cast<sint<64>>(n).v));
    else return std::to_string(n.u64());
  } else {
    std::string out = "0x";
    for (int i = (W - 1) / 4; i >= 0; --i) {
      const uint64_t digit = number<W, false>(n.v).shr(uint64_t(4 * i)).u64() & 15;
      if (digit || out.size() > 2 || i == 0) out += "0123456789abcdef"[digit];
    }
    return out;
  }
}

struct Digest {
  int kind;
  std::vector<uint8_t> data;
};

// What happened so far; in the order of nf_statistics (abi.h).
struct Statistics {
  uint64_t passes = 0;    // through ingress or egress
  uint64_t runaways = 0;  // packets stopped because they would have gone round for ever
  uint64_t endless_loops = 0;
  uint64_t queue_drops = 0;  // by full egress queues
  uint64_t failed_assertions = 0;
  uint64_t parser_timeouts = 0;
  uint64_t drops = 0;  // passes that left nothing of their packet
};

struct Context {
  // Of the packet in hand.
  uint64_t now_us = 0;
  uint64_t steps_left = max_steps_of_a_pass;
  uint64_t packet_bytes = 0;
  const uint8_t* payload = nullptr;
  size_t payload_bytes = 0;
  bool exited = false;
  bool checksum_error = false;
  bool saw_queue = false;  // the program read what depends on the queue or on the time of egress
  bool clone_requested = false, resubmit_requested = false, recirculate_requested = false;
  uint32_t clone_session = 0;
  int clone_list = no_field_list, resubmit_list = no_field_list, recirculate_list = no_field_list;
  uint32_t truncate_bytes = ~0u;
  // Of the switch.
  std::mt19937_64 random;
  std::vector<Digest> digests;
  std::vector<std::string> logged;
  uint64_t log_lines_lost = 0;
  Statistics statistics;
  void* const* objects = nullptr;  // those that are used outside the block that holds them

  void begin() {
    exited = checksum_error = clone_requested = resubmit_requested = recirculate_requested = false;
    truncate_bytes = ~0u;
  }
  // One round of a loop, one state of a parser.
  void step() {
    if (steps_left == 0) throw EndlessLoop{};
    --steps_left;
  }
  void clone(uint64_t session, int list) {
    clone_requested = true;
    clone_session = uint32_t(session);
    clone_list = list;
  }
  void resubmit(int list) {
    resubmit_requested = true;
    resubmit_list = list;
  }
  void recirculate(int list) {
    recirculate_requested = true;
    recirculate_list = list;
  }
  void truncate(uint64_t bytes) { truncate_bytes = uint32_t(bytes); }
  // log_msg(): "{}" stands for the next value. The oldest lines are kept.
  void log(std::string text, std::initializer_list<std::string> values) {
    if (logged.size() >= max_log_lines) {
      ++log_lines_lost;
      return;
    }
    size_t at = 0;
    for (const std::string& value : values) {
      at = text.find("{}", at);
      if (at == std::string::npos) break;
      text.replace(at, 2, value);
      at += value.size();
    }
    logged.push_back(std::move(text));
  }
  void check(bool holds) { statistics.failed_assertions += !holds; }
  template <class Bytes>
  void digest(int kind, const Bytes& data) {
    digests.push_back({kind, std::vector<uint8_t>(data.data(), data.data() + data.bytes())});
  }

  template <class T>
  T random_between(T low, T high) {
    const uint64_t lo = low.u64(), hi = high.u64();
    const uint64_t span = hi - lo + 1;
    return T(typename T::R(hi < lo ? lo : span == 0 ? random() : lo + random() % span));
  }
  // base + hash % max, as BMv2 computes it; without a maximum, base.
  template <class T, class Bytes>
  T hash(Algorithm algorithm, uint64_t base, const Bytes& data, uint64_t max) {
    const uint64_t value = hash_bytes(algorithm, data.data(), data.bytes(), random);
    return T(typename T::R(max ? base + value % max : base));
  }
  template <class T, class Bytes>
  T checksum(Algorithm algorithm, const Bytes& data) {
    return T(typename T::R(hash_bytes(algorithm, data.data(), data.bytes(), random)));
  }
  template <class T>
  T checksum(Algorithm, const InternetSum& sum) {
    return T(typename T::R(sum.checksum()));
  }
  template <class T, class Bytes>
  void verify_checksum(Algorithm algorithm, const Bytes& data, T given) {
    if (checksum<T>(algorithm, data) != given) checksum_error = true;
  }
};

template <class T>
T& object(Context& c, size_t number) {
  return *static_cast<T*>(c.objects[number]);
}

}  // namespace p4
