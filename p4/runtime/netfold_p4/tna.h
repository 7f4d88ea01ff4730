// The pipeline of Tofino around a generated TNA program: ingress parser, ingress, its deparser; the traffic manager
// with multicast, mirroring and egress queues; egress parser, egress, its deparser; resubmission, and ports that
// recirculate. Between the passes a packet is bytes, as in the chip: what ingress wants egress to know it emits.
#pragma once

#include "switch.h"

namespace p4 {

constexpr uint32_t no_egress_port = 511;
constexpr size_t port_metadata_bytes = 8;  // behind the intrinsic metadata: zeros, or what resubmit gave
constexpr int drop_packet = 1, drop_mirror = 4;  // bits of drop_ctl

// Ports 68 to 71 of each pipe of 128 lead back to its parser (Open Tofino: device ports of Tofino 1).
constexpr bool recirculates(uint32_t port) { return (port & 0x7f) >= 68 && (port & 0x7f) < 72; }

struct TnaContext : Context {
  Bytes front;  // what a mirrored or resubmitted packet carries before it

  template <class H>
  void put_front(const H& header) {
    front.assign((header.size_bits() + 7) / 8, 0);
    header.write(front.data());
  }
  void mirror(uint64_t session) {
    front.clear();
    clone(session, no_field_list);
  }
  template <class H>
  void mirror(uint64_t session, const H& header) {
    put_front(header);
    clone(session, no_field_list);
  }
  void resubmit_packet() {
    front.clear();
    resubmit(no_field_list);
  }
  template <class H>
  void resubmit_packet(const H& header) {
    put_front(header);
    resubmit(no_field_list);
  }
};
inline TnaContext& tna(Context& c) { return static_cast<TnaContext&>(c); }

// One's-complement sum of a parser's or deparser's Checksum.
class OnesSum {
 public:
  void clear() { sum_ = 0; }
  template <class Bytes>
  void add(const Bytes& data) { sum_ += uint16_t(~csum16(data.data(), data.bytes())); }
  template <class Bytes>
  void subtract(const Bytes& data) { sum_ += csum16(data.data(), data.bytes()); }
  bit<16> get() const { return bit<16>(uint16_t(~folded())); }
  bool wrong() const { return folded() != 0xFFFF; }
  template <class Bytes>
  static bit<16> of(const Bytes& data, bool zeros_as_ones) {
    const uint16_t sum = csum16(data.data(), data.bytes());
    return bit<16>(sum == 0 && zeros_as_ones ? uint16_t(0xFFFF) : sum);
  }

 private:
  uint16_t folded() const {
    uint64_t sum = sum_;
    while (sum >> 16) sum = (sum & 0xFFFF) + (sum >> 16);
    return uint16_t(sum);
  }
  uint64_t sum_ = 0;
};

// A packet between two passes.
struct TnaItem {
  Next next;
  uint32_t port, priority, rounds, source, enq_depth;
  uint32_t rid;
  bool first_of_group;
  uint64_t enq_ns;
  Bytes bytes, front;
};

template <class Program>
class TnaSwitch {
 public:
  explicit TnaSwitch(uint64_t seed) { context_.random.seed(seed); }

  Program program;
  RegisterMemory memory{program.registers};
  std::map<uint32_t, std::vector<Replica>> groups;
  std::map<uint32_t, CloneSession> sessions;  // mirror sessions

  Bytes out;
  std::vector<uint64_t> ends;
  std::vector<uint32_t> ports, sources;
  std::vector<uint8_t> ahead;  // none ever is: egress has state and reads the clock as a rule

  struct Descriptor {
    uint64_t item;
    uint32_t next;  // 0 egress, 1 resubmitted, 2 recirculated
    uint32_t port, priority, bytes;
  };

  Context& context() { return context_; }
  const Statistics& statistics() const { return context_.statistics; }
  void clear_output() {
    out.clear();
    ends.clear();
    ports.clear();
    sources.clear();
    ahead.clear();
  }

  // One packet in; everything that comes of it out, as far as its queues let it go by now.
  void receive(uint32_t port, const uint8_t* data, size_t bytes, uint64_t now_ns, uint32_t source) {
    advance(now_ns);
    begin(source, 0);
    ingress(data, bytes, port, nullptr);
    work();
    advance(now_ns);
  }
  void advance(uint64_t now_ns) {
    while (queues_.due(now_ns)) {
      const EgressQueues::Departure left = queues_.pop();
      set_time(left.due_ns);
      begin(items_[left.item].source, items_[left.item].rounds);
      pass_of(left.item, left.left_behind);
      work();
    }
    set_time(now_ns);
  }
  uint64_t next_due_ns() const { return queues_.next_due_ns(); }
  EgressQueues& queues() { return queues_; }
  void limit(uint32_t port, int priority, uint64_t rate_pps, uint64_t depth) {
    auto& queues = queues_.of(port);
    for (int i = 0; i < queues_per_port; ++i) {
      if (priority >= 0 && i != priority) continue;
      queues[size_t(i)].rate_pps = rate_pps;
      queues[size_t(i)].depth = depth;
    }
  }

  // ---- the passes alone: each returns what is to happen next (abi.h)

  const std::vector<Descriptor>& ingress_only(uint32_t port, const uint8_t* data, size_t bytes, uint64_t now_ns,
                                              uint32_t source) {
    hand_over(true);
    set_time(now_ns);
    begin(source, 0);
    ingress(data, bytes, port, nullptr);
    work();
    hand_over(false);
    return descriptors_;
  }
  const std::vector<Descriptor>& pass_only(uint32_t id, uint64_t now_ns, uint64_t enqueued_ns, uint32_t enq_depth,
                                           uint32_t depth) {
    hand_over(true);
    set_time(now_ns);
    TnaItem& item = items_[id];
    item.enq_ns = enqueued_ns;
    item.enq_depth = enq_depth;
    begin(item.source, item.rounds);
    pass_of(id, depth);
    work();
    hand_over(false);
    return descriptors_;
  }
  void pass_at_once(uint32_t port, bool yes) { instant_.set(port, yes); }
  InstantPorts::Turns turns(uint32_t port) const { return instant_.turns(port); }
  void pass_ahead(uint32_t, bool) {}  // no packet does
  void announce(uint32_t, const uint8_t*, size_t) {}
  bool holds(uint64_t id) const { return items_.holds(id); }
  [[gnu::always_inline]] void prefetch(uint64_t id) const { items_.prefetch(id); }
  void discard(uint32_t id) { items_.give(id); }

 private:
  using IgHeaders = typename Program::IgHeaders;
  using IgMeta = typename Program::IgMeta;
  using EgHeaders = typename Program::EgHeaders;
  using EgMeta = typename Program::EgMeta;
  using IgIntr = typename Program::IgIntr;
  using EgIntr = typename Program::EgIntr;

  void set_time(uint64_t now_ns) {
    now_ns_ = now_ns;
    context_.now_us = now_ns / 1000;
  }
  void begin(uint32_t source, uint32_t rounds) {
    source_ = source;
    rounds_ = rounds;
    stopped_ = false;
    passes_left_ = max_rounds;
  }
  void hand_over(bool starts) {
    if (starts) descriptors_.clear();
    handing_over_ = starts;
  }
  void stop(uint64_t Statistics::*counter) {
    context_.statistics.*counter += !stopped_;
    stopped_ = true;
    passes_left_ = 0;
  }
  bool pass() {
    if (passes_left_ == 0 || rounds_ > max_rounds) {
      stop(&Statistics::runaways);
      return false;
    }
    --passes_left_;
    ++context_.statistics.passes;
    context_.steps_left = max_steps_of_a_pass;
    context_.begin();
    return true;
  }
  void work() {
    while (!work_.empty()) {
      const uint32_t id = work_.front();
      work_.pop_front();
      pass_of(id, 0);
    }
  }
  void pass_of(uint32_t id, uint64_t left_behind) {
    TnaItem& item = items_[id];
    rounds_ = item.rounds;
    if (item.next == Next::egress) egress(item, left_behind);
    else ingress(item.bytes.data(), item.bytes.size(), item.port, item.next == Next::resubmitted ? &item.front : nullptr);
    items_.give(id);
  }
  static uint16_t error_bits(uint16_t code) {
    switch (code) {
      case packet_too_short:
      case header_too_short: return 0x0002;
      case no_match: return 0x0001;
      case parser_timeout: return 0x0010;
    }
    return 0x0100;
  }

  // ---- passes

  void ingress(const uint8_t* data, size_t bytes, uint32_t port, const Bytes* resubmitted) {
    const uint64_t before = left_;
    if (pass()) {
      const Bytes came(data, data + bytes);
      try {
        ingress_pass(came, port, resubmitted);
      } catch (const EndlessLoop&) {
        stop(&Statistics::endless_loops);
      }
    }
    context_.statistics.drops += left_ == before;
  }

  void ingress_pass(const Bytes& came, uint32_t port, const Bytes* resubmitted) {
    IgHeaders headers{};
    IgMeta meta{};
    typename Program::TmMeta tm{};
    typename Program::IgPrsr prsr{};
    typename Program::IgDprsr dprsr{};
    IgIntr intr{}, read{};
    intr.resubmit_flag = bit<1>(resubmitted != nullptr);
    intr.ingress_port = bit<9>(uint16_t(port));
    intr.ingress_mac_tstamp = bit<48>(now_ns_);
    const size_t before = IgIntr::fixed_bits / 8 + port_metadata_bytes;
    Bytes buffer(before, 0);
    intr.write(buffer.data());
    if (resubmitted != nullptr)
      for (size_t i = 0; i < resubmitted->size() && i < port_metadata_bytes; ++i)
        buffer[IgIntr::fixed_bits / 8 + i] = (*resubmitted)[i];
    buffer.insert(buffer.end(), came.begin(), came.end());
    context_.packet_bytes = came.size();
    PacketIn in(buffer.data(), buffer.size());
    uint16_t error = 0;
    read = intr;
    try {
      program.ingress_parse(context_, in, headers, meta, read, tm, prsr);
    } catch (const ParserError& e) {
      error = error_bits(e.code);
      // The chip drops what its ingress parser rejects, unless the program looks at parser_err.
      if (!Program::reads_parser_error || e.code == no_error) return;
    }
    const size_t consumed = in.consumed_bytes();
    prsr.parser_err = bit<16>(error);
    prsr.global_tstamp = bit<48>(now_ns_);
    tm.ucast_egress_port = bit<9>(uint16_t(no_egress_port));
    program.ingress(context_, headers, meta, read, prsr, dprsr, tm);
    context_.exited = false;
    Bytes packet;
    PacketOut deparsed(packet);
    program.ingress_deparse(context_, deparsed, headers, meta, dprsr, read);
    if (consumed < buffer.size()) packet.insert(packet.end(), buffer.begin() + long(consumed), buffer.end());

    const uint64_t drop = dprsr.drop_ctl.u64();
    if (context_.clone_requested && !(drop & drop_mirror)) mirror(came);
    if (drop & drop_packet) return;
    if (context_.resubmit_requested && resubmitted == nullptr) {
      const uint32_t id = take(Next::resubmitted, port, 0, came, rounds_ + 1);
      items_[id].front = context_.front;
      put(id);
      return;
    }
    const uint32_t queue = uint32_t(tm.qid.u64()) & (queues_per_port - 1);
    for (const uint64_t group : {tm.mcast_grp_a.u64(), tm.mcast_grp_b.u64()})
      if (group != 0) replicate(uint32_t(group), queue, packet);
    const uint32_t to = uint32_t(tm.ucast_egress_port.u64());
    if (to == no_egress_port) return;
    if (tm.bypass_egress.u64()) leave(to, packet);
    else to_egress(to, queue, packet, 0, false);
  }

  void egress(const TnaItem& item, uint64_t left_behind) {
    const uint64_t before = left_;
    if (pass()) {
      try {
        egress_pass(item, left_behind);
      } catch (const EndlessLoop&) {
        stop(&Statistics::endless_loops);
      }
    }
    context_.statistics.drops += left_ == before;
  }

  void egress_pass(const TnaItem& item, uint64_t left_behind) {
    EgHeaders headers{};
    EgMeta meta{};
    typename Program::EgPrsr prsr{};
    typename Program::EgDprsr dprsr{};
    typename Program::EgOport oport{};
    const uint32_t port = item.port;
    EgIntr intr{};
    intr.egress_port = bit<9>(uint16_t(port));
    intr.enq_qdepth = bit<19>(item.enq_depth);
    intr.deq_qdepth = bit<19>(uint32_t(left_behind));
    intr.enq_tstamp = bit<18>(uint32_t(item.enq_ns));
    intr.deq_timedelta = bit<18>(uint32_t(now_ns_ - item.enq_ns));
    intr.egress_rid = bit<16>(uint16_t(item.rid));
    intr.egress_rid_first = bit<1>(item.first_of_group);
    intr.egress_qid = bit<5>(uint8_t(item.priority));
    intr.pkt_length = bit<16>(uint16_t(item.bytes.size()));
    Bytes buffer(EgIntr::fixed_bits / 8, 0);
    intr.write(buffer.data());
    buffer.insert(buffer.end(), item.bytes.begin(), item.bytes.end());
    context_.packet_bytes = item.bytes.size();
    PacketIn in(buffer.data(), buffer.size());
    EgIntr read = intr;
    uint16_t error = 0;
    try {
      program.egress_parse(context_, in, headers, meta, read, prsr, dprsr);
    } catch (const ParserError& e) {
      error = error_bits(e.code);
    }
    const size_t consumed = in.consumed_bytes();
    prsr.parser_err = bit<16>(error);
    prsr.global_tstamp = bit<48>(now_ns_);
    program.egress(context_, headers, meta, read, prsr, dprsr, oport);
    context_.exited = false;
    Bytes packet;
    PacketOut deparsed(packet);
    program.egress_deparse(context_, deparsed, headers, meta, dprsr, read, prsr);
    if (consumed < buffer.size()) packet.insert(packet.end(), buffer.begin() + long(consumed), buffer.end());
    const uint64_t drop = dprsr.drop_ctl.u64();
    if (context_.clone_requested && !(drop & drop_mirror)) mirror(packet);
    if (!(drop & drop_packet)) leave(port, packet);
  }

  // ---- where a packet goes

  void leave(uint32_t port, const Bytes& packet) {
    if (recirculates(port)) {
      put(take(Next::recirculated, port, 0, packet, rounds_ + 1));
      return;
    }
    ++left_;
    append(out, packet.data(), packet.size());
    ends.push_back(out.size());
    ports.push_back(port);
    sources.push_back(source_);
    ahead.push_back(false);
  }
  void mirror(const Bytes& packet) {
    const auto found = sessions.find(context_.clone_session);
    if (found == sessions.end()) return;
    Bytes copy = context_.front;
    copy.insert(copy.end(), packet.begin(), packet.end());
    if (copy.size() > found->second.truncate_bytes) copy.resize(found->second.truncate_bytes);
    if (found->second.group != 0) replicate(found->second.group, 0, copy);
    if (found->second.port >= 0) to_egress(uint32_t(found->second.port), 0, copy, 0, false);
  }
  void replicate(uint32_t group, uint32_t queue, const Bytes& packet) {
    const auto found = groups.find(group);
    if (found == groups.end()) return;
    bool first = true;
    for (const Replica& replica : found->second) {
      to_egress(replica.port, queue, packet, replica.rid, first);
      first = false;
    }
  }
  void to_egress(uint32_t port, uint32_t queue, const Bytes& packet, uint32_t rid, bool first) {
    const uint32_t id = take(Next::egress, port, queue, packet, rounds_);
    items_[id].rid = rid;
    items_[id].first_of_group = first;
    put(id);
  }
  uint32_t take(Next next, uint32_t port, uint32_t queue, const Bytes& packet, uint32_t rounds) {
    ++left_;
    const uint32_t id = items_.take();
    TnaItem& item = items_[id];
    item = TnaItem{next, port, queue, rounds, source_, 0, 0, false, now_ns_, packet, {}};
    return id;
  }
  void put(uint32_t id) {
    TnaItem& item = items_[id];
    if (handing_over_ && !at_once(item)) {
      descriptors_.push_back({id, uint32_t(item.next), item.port, item.priority, uint32_t(item.bytes.size())});
      return;
    }
    EgressQueue* queue = item.next == Next::egress ? queues_.find(item.port, item.priority) : nullptr;
    if (queue != nullptr) {
      item.enq_depth = uint32_t(queue->waiting);
      if (!queues_.push(*queue, item.priority, id, now_ns_)) {
        ++context_.statistics.queue_drops;
        items_.give(id);
      }
    } else if (work_.size() >= max_copies) {
      stop(&Statistics::runaways);
      items_.give(id);
    } else {
      work_.push_back(id);
    }
  }

  bool at_once(const TnaItem& item) {
    return item.next != Next::resubmitted &&
           instant_.passes(item.port, item.next == Next::recirculated, item.bytes.size());
  }

  TnaContext context_;
  InstantPorts instant_;
  Pool<TnaItem> items_;
  EgressQueues queues_;
  std::deque<uint32_t> work_;
  std::vector<Descriptor> descriptors_;
  bool handing_over_ = false, stopped_ = false;
  uint64_t now_ns_ = 0, passes_left_ = 0;
  uint64_t left_ = 0;  // packets that passes left behind
  uint32_t source_ = 0, rounds_ = 0;
};

}  // namespace p4
