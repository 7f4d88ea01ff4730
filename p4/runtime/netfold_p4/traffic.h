// Egress queues as simple_switch has them: for each port eight priorities, each with a rate in packets a second
// and a depth in packets. A packet's time to leave is known when it enters (its queue's last one plus 1/rate);
// of those due at the same moment, the higher priority leaves first.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <queue>
#include <vector>

namespace p4 {

constexpr int queues_per_port = 8;

class PortSet {
 public:
  void set(uint32_t port, bool yes) {
    if (port >= is_.size()) is_.resize(port + 1);
    is_[port] = yes;
  }
  bool has(uint64_t port) const { return port < is_.size() && is_[port]; }

 private:
  std::vector<char> is_;
};

// Ports whose packets pass egress, and come round again, before the pass that sent them there returns: no queue, no time.
// What recirculates out of them is counted.
class InstantPorts {
 public:
  struct Turns {
    uint64_t packets = 0, bytes = 0;
  };
  void set(uint32_t port, bool yes) {
    ports_.set(port, yes);
    if (port >= turns_.size()) turns_.resize(port + 1);
  }
  bool has(uint64_t port) const { return ports_.has(port); }
  // Whether a packet to the port, or one that `recirculated` out of it, passes at once; the latter is counted.
  bool passes(uint32_t port, bool recirculated, uint64_t bytes) {
    if (!has(port)) return false;
    turns_[port].packets += recirculated;
    turns_[port].bytes += recirculated ? bytes : 0;
    return true;
  }
  Turns turns(uint32_t port) const { return port < turns_.size() ? turns_[port] : Turns{}; }

 private:
  PortSet ports_;
  std::vector<Turns> turns_;
};

struct EgressQueue {
  uint64_t rate_pps = 0;  // 0: no limit
  uint64_t depth = ~0ull;
  double next_ns = 0;  // no packet leaves before
  uint64_t waiting = 0, most = 0, dropped = 0;
};

class EgressQueues {
 public:
  bool empty() const { return queues_.empty(); }

  // What the port has; it is limited from now on.
  std::array<EgressQueue, queues_per_port>& of(uint32_t port) { return queues_[port]; }
  EgressQueue* find(uint32_t port, uint32_t priority) {
    const auto found = queues_.find(port);
    return found == queues_.end() ? nullptr : &found->second[priority];
  }

  // False if the queue is full: the packet is dropped, and counted.
  bool push(EgressQueue& queue, uint32_t priority, uint32_t item, uint64_t now_ns) {
    if (queue.waiting >= queue.depth) {
      ++queue.dropped;
      return false;
    }
    const double leaves_ns = queue.next_ns > double(now_ns) ? queue.next_ns : double(now_ns);
    queue.next_ns = leaves_ns + (queue.rate_pps ? 1e9 / double(queue.rate_pps) : 0.0);
    ++queue.waiting;
    if (queue.waiting > queue.most) queue.most = queue.waiting;
    // A fraction of a nanosecond counts as the next one: nothing leaves early.
    uint64_t due = uint64_t(leaves_ns);
    if (double(due) < leaves_ns) ++due;
    waiting_.push({due, queues_per_port - 1 - priority, number_++, item, &queue});
    return true;
  }

  bool due(uint64_t now_ns) const { return !waiting_.empty() && waiting_.top().due_ns <= now_ns; }
  uint64_t next_due_ns() const { return waiting_.empty() ? ~0ull : waiting_.top().due_ns; }

  struct Departure {
    uint64_t due_ns;
    uint32_t item;
    uint64_t left_behind;  // packets still in its queue
  };
  Departure pop() {
    const Waiting first = waiting_.top();
    waiting_.pop();
    return {first.due_ns, first.item, --first.queue->waiting};
  }

 private:
  struct Waiting {
    uint64_t due_ns;
    uint64_t rank, number;
    uint32_t item;
    EgressQueue* queue;
    bool operator<(const Waiting& o) const {  // the one that leaves first is the greatest
      if (due_ns != o.due_ns) return due_ns > o.due_ns;
      return rank != o.rank ? rank > o.rank : number > o.number;
    }
  };
  std::map<uint32_t, std::array<EgressQueue, queues_per_port>> queues_;
  std::priority_queue<Waiting> waiting_;
  uint64_t number_ = 0;
};

}  // namespace p4
