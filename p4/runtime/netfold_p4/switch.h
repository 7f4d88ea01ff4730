// A whole switch: the passes of v1model.h, the egress queues of traffic.h, and a list of the packets that have
// another pass at once. Or the passes alone, for a caller with queues of its own.
#pragma once

#include <deque>

#include "traffic.h"
#include "v1model.h"

namespace p4 {

constexpr size_t max_copies = 1 << 16;  // of one packet, waiting for their next pass at the same time

template <class Program>
class Switch : public Pipeline<Program> {
  using Base = Pipeline<Program>;
  using Base::ahead_, Base::context_, Base::direct_, Base::handing_over_, Base::instant_, Base::items_;
  using typename Base::Meta, typename Base::StdMeta;

 public:
  using Base::Base;

  // What a pass leaves for its caller, when that is the traffic manager.
  struct Descriptor {
    uint64_t item;
    uint32_t next;  // 0 egress, 1 resubmitted, 2 recirculated
    uint32_t port;
    uint32_t priority;
    uint32_t bytes;
  };

  // One packet in; everything that comes of it out, as far as its queues let it go by now.
  void receive(uint32_t port, const uint8_t* data, size_t bytes, uint64_t now_ns, uint32_t source) {
    if (!queues_.empty()) advance(now_ns);
    first_pass(port, data, bytes, now_ns, source);
    if (!work_.empty()) work();
    if (queues_.due(now_ns)) advance(now_ns);
  }
  // Time moves on: what is due leaves its queue.
  void advance(uint64_t now_ns) {
    while (queues_.due(now_ns)) {
      const EgressQueues::Departure left = queues_.pop();
      set_time(left.due_ns);
      const Item<Program>& item = items_[left.item];
      this->begin_packet(item.source, item.rounds);
      pass_of(left.item, left.left_behind);
      work();
    }
    set_time(now_ns);
  }
  uint64_t next_due_ns() const { return queues_.next_due_ns(); }

  EgressQueues& queues() { return queues_; }
  // From now on this port has queues (priority < 0: all of them alike).
  void limit(uint32_t port, int priority, uint64_t rate_pps, uint64_t depth) {
    auto& queues = queues_.of(port);
    for (int i = 0; i < queues_per_port; ++i) {
      if (priority >= 0 && i != priority) continue;
      queues[size_t(i)].rate_pps = rate_pps;
      queues[size_t(i)].depth = depth;
    }
    direct_ = false;
  }

  // ---- the passes alone: each returns what is to happen next

  const std::vector<Descriptor>& ingress_only(uint32_t port, const uint8_t* data, size_t bytes, uint64_t now_ns,
                                              uint32_t source) {
    const Handover guard(*this);
    first_pass(port, data, bytes, now_ns, source);
    work();
    return descriptors_;
  }
  // The next pass of an item. `depth` is the queue it leaves behind, for egress.
  const std::vector<Descriptor>& pass_only(uint32_t id, uint64_t now_ns, uint64_t enqueued_ns, uint32_t enq_depth,
                                           uint32_t depth) {
    const Handover guard(*this);
    set_time(now_ns);
    Item<Program>& item = items_[id];
    item.enq_us = enqueued_ns / 1000;
    item.enq_depth = enq_depth;
    this->begin_packet(item.source, item.rounds);
    pass_of(id, depth);
    work();
    return descriptors_;
  }
  // A port whose packets pass egress, and come round again, before the pass that sent them there returns: no queue, no
  // time. What recirculates out of it is counted, not handed over.
  void pass_at_once(uint32_t port, bool yes) { instant_.set(port, yes); }
  InstantPorts::Turns turns(uint32_t port) const { return instant_.turns(port); }
  // Packets to this port may pass egress before they wait. Until one waits whose egress is still to come.
  void pass_ahead(uint32_t port, bool yes) { ahead_.set(port, yes); }

  void announce(uint32_t port, const uint8_t* data, size_t bytes) { this->rehearse(port, data, bytes); }
  bool holds(uint64_t id) const { return items_.holds(id); }
  [[gnu::always_inline]] void prefetch(uint64_t id) const { items_.prefetch(id); }
  void discard(uint32_t id) { items_.give(id); }

 private:
  // While it lives, passes hand their packets over instead of queueing them here.
  struct Handover {
    explicit Handover(Switch& owner) : owner_(owner), direct_(owner.direct_) {
      owner.descriptors_.clear();
      owner.handing_over_ = true;
      owner.direct_ = false;
    }
    ~Handover() {
      owner_.handing_over_ = false;
      owner_.direct_ = direct_;
    }
    Switch& owner_;
    bool direct_;
  };

  void set_time(uint64_t now_ns) {
    now_ns_ = now_ns;
    context_.now_us = now_ns / 1000;
  }

  void first_pass(uint32_t port, const uint8_t* data, size_t bytes, uint64_t now_ns, uint32_t source) {
    set_time(now_ns);
    this->begin_packet(source, 0);
    Meta meta{};
    StdMeta std_meta{};
    std_meta.ingress_port = bit<9>(uint16_t(port));
    this->ingress(data, bytes, meta, std_meta);
    this->go_round();
  }

  void work() {
    while (!work_.empty()) {
      const uint32_t id = work_.front();
      work_.pop_front();
      pass_of(id, 0);
    }
  }

  void pass_of(uint32_t id, uint64_t depth) {
    Item<Program>& item = items_[id];
    this->continue_packet(item.rounds);
    if (item.next == Next::egress) {
      StdMeta& s = item.std_meta;
      s.enq_timestamp = bit<32>(uint32_t(item.enq_us));
      s.enq_qdepth = bit<19>(item.enq_depth);
      s.deq_timedelta = bit<32>(uint32_t(context_.now_us - item.enq_us));
      s.deq_qdepth = bit<19>(uint32_t(depth));
      this->egress(item.headers, item.meta, s, item.bytes.data(), item.bytes.size(), item.length, item.truncate);
    } else if (item.as_headers) {
      this->ingress_again(item);
    } else {
      this->ingress(item.bytes.data(), item.bytes.size(), item.meta, item.std_meta);
    }
    this->go_round();
    items_.give(id);
  }

  void put(uint32_t id) override {
    Item<Program>& item = items_[id];
    if (handing_over_ && !at_once(item)) {
      if (item.next == Next::egress && ahead_.has(item.port)) ahead_.set(item.port, false);
      descriptors_.push_back({id, uint32_t(item.next), item.port, item.priority, uint32_t(item.length)});
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
      this->stop(&Statistics::runaways);
      items_.give(id);
    } else {
      work_.push_back(id);
    }
  }

  // Not past those that wait for their next pass already.
  bool goes_round_at_once(uint32_t port, uint64_t bytes) override {
    return work_.empty() && (!handing_over_ || instant_.passes(port, true, bytes));
  }

  bool at_once(const Item<Program>& item) {
    return item.next != Next::resubmitted &&
           instant_.passes(item.port, item.next == Next::recirculated, item.length);
  }

  EgressQueues queues_;
  std::deque<uint32_t> work_;
  std::vector<Descriptor> descriptors_;
  uint64_t now_ns_ = 0;
};

}  // namespace p4
