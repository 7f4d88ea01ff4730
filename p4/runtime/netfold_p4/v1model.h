// The passes of simple_switch around a generated program: parser, checksums and ingress; egress, checksums and
// deparser; and what each leaves behind (copies for egress, clones, packets that go round again). Where those wait
// until their next pass is the traffic manager's business: switch.h, or the caller's own (abi.h).
#pragma once

#include <map>
#include <memory>

#include "context.h"
#include "traffic.h"

namespace p4 {

constexpr uint64_t drop_port = 511;
constexpr uint32_t max_rounds = 1 << 20;  // resubmissions and recirculations of one packet
// What a packet and all that comes of it may use at once: a pass costs sixteen, and one for each of its steps.
constexpr uint64_t budget_of_a_packet = uint64_t(1) << 24;

enum InstanceType : uint32_t {
  normal = 0, ingress_clone = 1, egress_clone = 2, recirculated = 4, replicated = 5, resubmitted = 6
};

struct Replica {
  uint32_t port;
  uint32_t rid;
};

struct CloneSession {
  int64_t port = -1;
  uint32_t group = 0;  // 0: none
  uint32_t truncate_bytes = ~0u;
};

enum class Next : uint8_t { egress, resubmitted, recirculated };

// A packet between two passes.
template <class Program>
struct Item {
  Next next;
  uint32_t port;      // for egress: where it goes out
  uint32_t priority;  // of the egress queue, 0 to 7
  uint32_t rounds;    // how often it went round so far
  uint32_t source;    // the caller's number of the packet it came from
  uint32_t truncate;
  uint32_t enq_depth;
  uint64_t length;  // bytes, before egress changes it
  uint64_t enq_us;
  Bytes bytes;  // the whole packet; for egress, or `as_headers`, the payload behind the headers
  bool as_headers;  // recirculated without becoming bytes
  typename Program::Headers headers;
  typename Program::Meta meta;
  typename Program::StdMeta std_meta;
};

// Objects with a number, used again and again. Their addresses do not change.
template <class T>
class Pool {
 public:
  uint32_t take() {
    if (free_.empty()) grow();
    const uint32_t id = free_.back();
    free_.pop_back();
    place(id).taken = true;
    if (!free_.empty()) prefetch(free_.back());  // the next one to be taken
    return id;
  }
  void give(uint32_t id) {
    place(id).taken = false;
    free_.push_back(id);
  }
  bool holds(uint64_t id) const { return id / per_slab < slabs_.size() && place(id).taken; }
  T& operator[](uint32_t id) { return place(id).object; }
  // It is wanted soon. Inlined, as g++ takes a function that does nothing but prefetch for one that does nothing.
  [[gnu::always_inline]] void prefetch(uint64_t id) const {
    if (id / per_slab >= slabs_.size()) return;
    const char* at = reinterpret_cast<const char*>(&place(id));
    for (size_t behind = 0; behind < sizeof(Place); behind += cache_line) __builtin_prefetch(at + behind, 1);
  }

 private:
  static constexpr uint32_t per_slab = 64;
  struct alignas(cache_line) Place {
    bool taken = false;
    T object;
  };
  Place& place(uint64_t id) const { return slabs_[id / per_slab][id % per_slab]; }
  void grow() {
    const uint32_t first = uint32_t(slabs_.size()) * per_slab;
    slabs_.push_back(std::make_unique<Place[]>(per_slab));
    for (uint32_t i = per_slab; i-- > 0;) free_.push_back(first + i);
  }
  std::vector<std::unique_ptr<Place[]>> slabs_;
  std::vector<uint32_t> free_;
};

template <class Program>
class Pipeline {
 public:
  using Headers = typename Program::Headers;
  using Meta = typename Program::Meta;
  using StdMeta = typename Program::StdMeta;

  explicit Pipeline(uint64_t seed) {
    context_.random.seed(seed);
    context_.objects = program.objects.data();
  }
  virtual ~Pipeline() = default;

  Program program;
  RegisterMemory memory{program.registers};
  std::map<uint32_t, std::vector<Replica>> groups;
  std::map<uint32_t, CloneSession> sessions;

  // Output packets since the last clear: bytes of packet i are out[ends[i-1]..ends[i]).
  Bytes out;
  std::vector<uint64_t> ends;
  std::vector<uint32_t> ports, sources;
  std::vector<uint8_t> ahead;  // of its port's queue, in which it has yet to wait

  Context& context() { return context_; }
  const Statistics& statistics() const { return context_.statistics; }
  void clear_output() {
    out.clear();
    ends.clear();
    ports.clear();
    sources.clear();
    ahead.clear();
  }

 protected:
  // Called for each packet that is to have another pass; the receiver gives the item back.
  virtual void put(uint32_t id) = 0;
  // Whether nothing comes between a recirculating packet's egress and its next ingress.
  virtual bool goes_round_at_once(uint32_t port, uint64_t bytes) = 0;

  // Before a packet's first pass: the passes and steps it may use.
  void begin_packet(uint32_t source, uint32_t rounds) {
    source_ = source;
    rounds_ = rounds;
    stopped_ = false;
    budget_ = budget_of_a_packet;
    context_.steps_left = max_steps_of_a_pass;
  }
  // Another of the packet's copies.
  void continue_packet(uint32_t rounds) { rounds_ = rounds; }
  // The packet in hand is stopped, and what waits of it too. Counted once.
  void stop(uint64_t Statistics::*counter) {
    context_.statistics.*counter += !stopped_;
    stopped_ = true;
    budget_ = 0;
  }

  void ingress(const uint8_t* data, size_t bytes, Meta& meta, StdMeta& std_meta) {
    counted([&] { ingress_pass(data, bytes, meta, std_meta); });
  }

  void egress(Headers& headers, Meta& meta, StdMeta& std_meta, const uint8_t* payload, size_t payload_bytes,
              uint64_t length, uint32_t truncate) {
    const uint64_t before = ++left_;  // by the ingress that it may follow at once
    const size_t start = out.size();
    if (pass()) {
      try {
        egress_pass(headers, meta, std_meta, payload, payload_bytes, length, truncate);
      } catch (const EndlessLoop&) {
        out.resize(start);
        stop(&Statistics::endless_loops);
      }
    }
    context_.statistics.drops += left_ == before;
  }

  // Ingress of a packet that went round as an item's headers.
  void ingress_again(Item<Program>& item) {
    round_.emitted.clear();
    if constexpr (Program::reads_what_it_writes) Program::emitted(round_.emitted, item.headers);
    round_.payload = item.bytes.data();
    round_.payload_bytes = item.bytes.size();
    const size_t bytes = round_.emitted.bytes() + round_.payload_bytes;
    counted([&] {
      const uint64_t steps = context_.steps_left;
      Meta meta = item.meta;
      StdMeta std_meta = item.std_meta;
      begin_ingress(bytes, std_meta);
      if (parse_round(headers_[0], meta, std_meta)) {
        ingress_of({nullptr, bytes}, headers_[0], meta, std_meta, round_.payload, round_.payload_bytes);
        return;
      }
      misfit(steps);
      const Arrived came = as_bytes({nullptr, bytes}, round_.bytes[0]);
      ingress_pass(came.data, came.bytes, item.meta, item.std_meta);
    });
  }

  // The packet is likely to be the next: begin to load what its ingress will read (codegen/announce.py).
  void rehearse(uint32_t port, const uint8_t* data, size_t bytes) {
    if constexpr (Program::is_announced) {
      Meta meta{};
      StdMeta std_meta{};
      std_meta.ingress_port = bit<9>(uint16_t(port));
      announced_.bytes = 0;
      PacketIn in(data, bytes);
      context_.steps_left = steps_of_a_rehearsal;
      try {
        begin_ingress(bytes, std_meta);
        program.parse(context_, in, announced_.headers, meta, std_meta);
        // Its headers are what the pass begins with.
        if (Program::parses_bytes_only) announced_.set(data, bytes, in.consumed_bytes());
        headers_[0] = announced_.headers;
        context_.exited = false;
        program.rehearse(context_, headers_[0], meta, std_meta);
      } catch (const ParserError&) {
      } catch (const EndlessLoop&) {
      }
    }
  }

  // The passes of a packet that went round at once, until it no longer does. Behind every ingress() and egress(), as long
  // as the bytes and headers that these were given are there.
  void go_round() {
    while (round_.pending) {
      round_.pending = false;
      ++rounds_;
      counted([&] { round_pass(); });
    }
  }

  // Whether no queue stands before the port's egress: it follows the packet's ingress without being stored.
  bool direct(uint32_t port) const { return direct_ || instant_.has(port); }

  bool direct_ = true;  // of all ports
  bool handing_over_ = false;  // packets that wait are the caller's
  InstantPorts instant_;
  PortSet ahead_;  // whose packets may pass egress before they wait: none waits there whose egress is to come
  Pool<Item<Program>> items_;
  Context context_;

 private:
  static constexpr uint64_t cost_of_a_pass = 16;
  static constexpr uint64_t steps_of_a_rehearsal = 256;

  // A pass through ingress, if the packet may have another; a drop if it leaves nothing.
  template <class Pass>
  void counted(Pass&& run) {
    const uint64_t before = left_;
    if (pass()) {
      try {
        run();
      } catch (const EndlessLoop&) {
        stop(&Statistics::endless_loops);
      }
    }
    context_.statistics.drops += left_ == before;
  }

  bool pass() {
    const uint64_t used = cost_of_a_pass + max_steps_of_a_pass - context_.steps_left;
    context_.steps_left = max_steps_of_a_pass;
    if (budget_ < used || rounds_ > max_rounds) {
      stop(&Statistics::runaways);
      return false;
    }
    ++context_.statistics.passes;
    budget_ -= used;
    return true;
  }

  // The packet as an ingress pass got it: bytes, or the headers that went round.
  struct Arrived {
    const uint8_t* data;  // null: headers
    size_t bytes;
  };

  template <class Packet>
  void parse(Packet& in, Headers& headers, Meta& meta, StdMeta& std_meta) {
    try {
      program.parse(context_, in, headers, meta, std_meta);
    } catch (const ParserError& error) {
      // The packet goes on (v1model): the program reads parser_error.
      std_meta.parser_error = decltype(std_meta.parser_error)(error.code);
      context_.statistics.parser_timeouts += error.code == parser_timeout;
    }
  }

  void ingress_pass(const uint8_t* data, size_t bytes, Meta& meta, StdMeta& std_meta) {
    Headers& headers = headers_[0];  // the parser clears it
    begin_ingress(bytes, std_meta);
    size_t consumed;
    if (announced_.is(data, bytes)) {
      headers = announced_.headers;
      consumed = announced_.consumed;
    } else {
      PacketIn in(data, bytes);
      parse(in, headers, meta, std_meta);
      consumed = in.consumed_bytes();
    }
    announced_.bytes = 0;
    ingress_of({data, bytes}, headers, meta, std_meta, data + consumed, bytes - consumed);
  }

  // Ingress of a packet that went round at once: its headers need no bytes where the parser extracts what the deparser
  // emitted.
  void round_pass() {
    const int now = round_.current;
    const size_t bytes = round_.emitted.bytes() + round_.payload_bytes;
    if constexpr (Program::reads_what_it_writes) {
      Headers& headers = headers_[round_.from == &headers_[0]];  // not those that are being read
      const uint64_t steps = context_.steps_left;
      begin_ingress(bytes, round_.std_meta[now]);
      if (parse_round(headers, round_.meta[now], round_.std_meta[now])) {
        ingress_of({nullptr, bytes}, headers, round_.meta[now], round_.std_meta[now], round_.payload, round_.payload_bytes);
        return;
      }
      misfit(steps);
    }
    begin_round(round_.list, recirculated, round_.meta[now], round_.std_meta[now], *round_.from_meta, *round_.from_std_meta);
    const Arrived came = as_bytes({nullptr, bytes}, round_.bytes[now]);  // there as long as a next round may read its end
    ingress_pass(came.data, came.bytes, round_.meta[now], round_.std_meta[now]);
  }

  // Such a program's other packets hardly fit either, and each try costs.
  void misfit(uint64_t steps) {
    round_.fits = ++round_.misfits < most_misfits;
    context_.steps_left = steps;
  }

  // Parses the headers that went round; false if the parser takes others.
  bool parse_round(Headers& headers, Meta& meta, StdMeta& std_meta) {
    if constexpr (Program::reads_what_it_writes) {
      HeadersIn in(round_.emitted);
      try {
        parse(in, headers, meta, std_meta);
        return in.at_end();
      } catch (const HeadersIn::OtherHeaders&) {
      }
    }
    return false;
  }

  void begin_ingress(size_t bytes, StdMeta& std_meta) {
    context_.begin();
    context_.packet_bytes = bytes;
    std_meta.packet_length = bit<32>(uint32_t(bytes));
    std_meta.ingress_global_timestamp = bit<48>(context_.now_us);
  }

  // Behind the parser.
  void ingress_of(const Arrived& arrived, Headers& headers, Meta& meta, StdMeta& std_meta, const uint8_t* payload,
                  size_t payload_bytes) {
    const size_t bytes = arrived.bytes;
    context_.payload = payload;
    context_.payload_bytes = payload_bytes;
    program.verify(context_, headers, meta);
    std_meta.checksum_error = bit<1>(context_.checksum_error);
    context_.exited = false;
    program.ingress(context_, headers, meta, std_meta);

    const uint32_t truncate = context_.truncate_bytes;
    if (context_.clone_requested) clone_ingress(arrived, meta, std_meta);
    if (context_.resubmit_requested) {
      const uint32_t id = take(Next::resubmitted, bytes, rounds_ + 1);
      Bytes made;
      const Arrived came = as_bytes(arrived, made);
      assign(items_[id].bytes, came.data, came.bytes);
      again(id, context_.resubmit_list, meta, std_meta);
      return;
    }
    const Waiting waiting{payload, payload_bytes, bytes, truncate};
    if (std_meta.mcast_grp.u64() != 0) {
      std_meta.instance_type = bit<32>(replicated);
      replicate<true>(uint32_t(std_meta.mcast_grp.u64()), headers, meta, std_meta, waiting);
      return;
    }
    if (std_meta.egress_spec.u64() == drop_port) return;
    std_meta.instance_type = bit<32>(normal);
    std_meta.egress_port = std_meta.egress_spec;
    if (!direct(uint32_t(std_meta.egress_spec.u64()))) {
      if (!egress_ahead(headers, meta, std_meta, waiting)) to_egress(headers, meta, std_meta, waiting);
      return;
    }
    std_meta.enq_timestamp = bit<32>(uint32_t(context_.now_us));
    std_meta.enq_qdepth = bit<19>();
    std_meta.deq_qdepth = bit<19>();
    std_meta.deq_timedelta = bit<32>();
    egress(headers, meta, std_meta, payload, payload_bytes, bytes, truncate);
  }

  // As bytes, which are made in `made` if there are none.
  Arrived as_bytes(const Arrived& arrived, Bytes& made) const {
    if (arrived.data != nullptr) return arrived;
    made.clear();
    round_.emitted.write(made);
    append(made, round_.payload, round_.payload_bytes);
    return {made.data(), made.size()};
  }

  void begin_egress(StdMeta& std_meta, const uint8_t* payload, size_t payload_bytes, uint64_t length, uint32_t truncate) {
    context_.begin();
    context_.truncate_bytes = truncate;
    context_.packet_bytes = length;
    context_.payload = payload;
    context_.payload_bytes = payload_bytes;
    std_meta.egress_global_timestamp = bit<48>(context_.now_us);
    std_meta.packet_length = bit<32>(uint32_t(length));
    std_meta.egress_spec = bit<9>();
  }

  void egress_pass(Headers& headers, Meta& meta, StdMeta& std_meta, const uint8_t* payload, size_t payload_bytes,
                   uint64_t length, uint32_t truncate) {
    begin_egress(std_meta, payload, payload_bytes, length, truncate);
    const uint32_t port = uint32_t(std_meta.egress_port.u64());
    program.egress(context_, headers, meta, std_meta);
    const uint32_t cut = context_.truncate_bytes;
    if (context_.clone_requested) clone_egress(headers, meta, std_meta, payload, payload_bytes, length);
    if (std_meta.egress_spec.u64() == drop_port) return;
    const bool recirculate = context_.recirculate_requested;
    const int list = context_.recirculate_list;
    context_.exited = false;
    program.compute(context_, headers, meta);

    context_.exited = false;
    if (recirculate) {
      if (cut == ~0u && recirculate_as_headers(port, list, headers, meta, std_meta, payload, payload_bytes)) return;
      round_bytes_.clear();
      deparse(round_bytes_, headers, payload, payload_bytes, cut);
      const uint32_t id = take(Next::recirculated, round_bytes_.size(), rounds_ + 1);
      items_[id].bytes.swap(round_bytes_);
      again(id, list, meta, std_meta);
      return;
    }
    deparse(out, headers, payload, payload_bytes, cut);
    leave(port, false);
  }

  // What deparse() put last into `out`.
  void leave(uint32_t port, bool before_waiting) {
    ++left_;
    ends.push_back(out.size());
    ports.push_back(port);
    sources.push_back(source_);
    ahead.push_back(before_waiting);
  }

  // What is of a packet on its way to a queue, beside its headers and metadata.
  struct Waiting {
    const uint8_t* payload;
    size_t payload_bytes;
    uint64_t length;
    uint32_t truncate;
  };

  // Egress of a packet that has yet to wait, where that comes to the same (codegen/ahead.py): the program looks at neither
  // queue nor time, and the packet leaves, alone and as long as it is. Else nothing has happened, and the answer is no.
  bool egress_ahead(const Headers& headers, const Meta& meta, const StdMeta& std_meta, const Waiting& waiting) {
    if constexpr (Program::egress_may_run_ahead) {
      const uint32_t port = uint32_t(std_meta.egress_port.u64());
      if (!handing_over_ || !ahead_.has(port) || early_.misfits >= most_misfits) return false;
      const uint64_t steps = context_.steps_left, budget = budget_;
      ++left_;
      if (!pass()) {
        ++context_.statistics.drops;
        return true;
      }
      early_.headers = headers;
      early_.meta = meta;
      early_.std_meta = std_meta;
      begin_egress(early_.std_meta, waiting.payload, waiting.payload_bytes, waiting.length, waiting.truncate);
      context_.saw_queue = false;
      bool fits = true;
      try {
        program.egress(context_, early_.headers, early_.meta, early_.std_meta);
        fits = !context_.saw_queue && !context_.clone_requested && !context_.recirculate_requested &&
               early_.std_meta.egress_spec.u64() != drop_port;
      } catch (const EndlessLoop&) {
        fits = false;
      }
      const size_t start = out.size();
      if (fits) {
        context_.exited = false;
        program.compute(context_, early_.headers, early_.meta);
        context_.exited = false;
        deparse(out, early_.headers, waiting.payload, waiting.payload_bytes, context_.truncate_bytes);
        if (out.size() - start == waiting.length) {
          leave(port, true);
          early_.misfits -= early_.misfits > 0;
          return true;
        }
      }
      out.resize(start);
      ++early_.misfits;
      --left_;
      --context_.statistics.passes;
      context_.steps_left = steps;
      budget_ = budget;
    }
    return false;
  }

  // Without becoming bytes: at once, or in an item until its turn. False if the program's packets do not go round so.
  bool recirculate_as_headers(uint32_t port, int list, const Headers& headers, const Meta& meta, const StdMeta& std_meta,
                              const uint8_t* payload, size_t payload_bytes) {
    if constexpr (Program::reads_what_it_writes) {
      if (!round_.fits) return false;
      round_.emitted.clear();
      Program::emitted(round_.emitted, headers);
      const size_t bytes = round_.emitted.bytes() + payload_bytes;
      if (!goes_round_at_once(port, bytes)) {
        const uint32_t id = take(Next::recirculated, bytes, rounds_ + 1);
        items_[id].as_headers = true;
        items_[id].headers = headers;
        assign(items_[id].bytes, payload, payload_bytes);
        again(id, list, meta, std_meta);
        return true;
      }
      round_.pending = true;
      round_.from = &headers;
      round_.from_meta = &meta;
      round_.from_std_meta = &std_meta;
      round_.list = list;
      round_.payload = payload;
      round_.payload_bytes = payload_bytes;
      round_.current ^= 1;  // the other ones may be `meta` and `std_meta`
      begin_round(list, recirculated, round_.meta[round_.current], round_.std_meta[round_.current], meta, std_meta);
      ++left_;
      return true;
    }
    return false;
  }

  void deparse(Bytes& to, const Headers& headers, const uint8_t* payload, size_t payload_bytes, uint32_t cut) {
    const size_t start = to.size();
    PacketOut packet(to);
    program.deparse(context_, packet, headers);
    append(to, payload, payload_bytes);
    if (to.size() - start > cut) to.resize(start + cut);
  }

  // A new item; its bytes, headers and metadata are as the last user left them.
  uint32_t take(Next next, uint64_t length, uint32_t rounds) {
    const uint32_t id = items_.take();
    Item<Program>& item = items_[id];
    ++left_;
    item.next = next;
    item.rounds = rounds;
    item.source = source_;
    item.truncate = ~0u;
    item.length = length;
    item.as_headers = false;
    return id;
  }

  // The metadata of a packet on its way back to the parser: that of a field list and no other.
  static void begin_round(int list, InstanceType type, Meta& meta, StdMeta& std_meta, const Meta& from,
                          const StdMeta& std_from) {
    meta = Meta{};
    std_meta = StdMeta{};
    Program::preserve(list, meta, std_meta, from, std_from);
    std_meta.instance_type = bit<32>(type);
  }

  void again(uint32_t id, int list, const Meta& meta, const StdMeta& std_meta) {
    Item<Program>& item = items_[id];
    item.port = uint32_t(std_meta.egress_port.u64());
    item.priority = 0;
    begin_round(list, item.next == Next::resubmitted ? resubmitted : recirculated, item.meta, item.std_meta, meta, std_meta);
    put(id);
  }

  // To the queue of std_meta.egress_port.
  void to_egress(const Headers& headers, const Meta& meta, const StdMeta& std_meta, const Waiting& waiting) {
    const uint32_t id = take(Next::egress, waiting.length, rounds_);
    Item<Program>& item = items_[id];
    assign(item.bytes, waiting.payload, waiting.payload_bytes);
    item.truncate = waiting.truncate;
    item.headers = headers;
    item.meta = meta;
    item.std_meta = std_meta;
    item.port = uint32_t(std_meta.egress_port.u64());
    item.priority = uint32_t(std_meta.priority.u64());
    item.enq_us = context_.now_us;
    item.enq_depth = 0;
    put(id);
  }

  // `Last`: the pass has nothing else to do, so egress may follow.
  template <bool Last>
  void replicate(uint32_t group, const Headers& headers, const Meta& meta, const StdMeta& std_meta, const Waiting& waiting) {
    const auto found = groups.find(group);
    if (found == groups.end()) return;
    StdMeta replica_meta = std_meta;
    for (const Replica& replica : found->second) {
      replica_meta.egress_rid = bit<16>(uint16_t(replica.rid));
      replica_meta.egress_port = bit<9>(uint16_t(replica.port));
      if (Last && egress_ahead(headers, meta, replica_meta, waiting)) continue;
      to_egress(headers, meta, replica_meta, waiting);
    }
  }

  // The clone of a session goes to its port, its group, or both.
  void send_clone(const CloneSession& session, const Headers& headers, const Meta& meta, const StdMeta& std_meta,
                  Waiting waiting) {
    waiting.truncate = session.truncate_bytes;
    if (session.group != 0) replicate<false>(session.group, headers, meta, std_meta, waiting);
    if (session.port >= 0) {
      StdMeta clone_meta = std_meta;
      clone_meta.egress_port = bit<9>(uint16_t(session.port));
      to_egress(headers, meta, clone_meta, waiting);
    }
  }

  // A clone from ingress is the packet as it came in, parsed again.
  void clone_ingress(const Arrived& arrived, const Meta& meta, const StdMeta& std_meta) {
    const auto session = sessions.find(context_.clone_session);
    if (session == sessions.end()) return;
    Meta clone_meta;
    StdMeta clone_std;
    const auto begin = [&] {
      clone_meta = Meta{};
      clone_std = StdMeta{};
      clone_std.ingress_port = std_meta.ingress_port;
    };
    begin();
    Bytes made;
    Waiting waiting{round_.payload, round_.payload_bytes, arrived.bytes, ~0u};
    if (arrived.data != nullptr || !parse_round(clone_headers_, clone_meta, clone_std)) {
      begin();
      const Arrived came = as_bytes(arrived, made);
      PacketIn in(came.data, came.bytes);
      parse(in, clone_headers_, clone_meta, clone_std);
      waiting.payload = came.data + in.consumed_bytes();
      waiting.payload_bytes = came.bytes - in.consumed_bytes();
    }
    clone_meta = Meta{};
    clone_std = StdMeta{};
    Program::preserve(context_.clone_list, clone_meta, clone_std, meta, std_meta);
    clone_std.instance_type = bit<32>(ingress_clone);
    send_clone(session->second, clone_headers_, clone_meta, clone_std, waiting);
  }
  // A clone from egress has the headers as egress left them.
  void clone_egress(const Headers& headers, const Meta& meta, const StdMeta& std_meta, const uint8_t* payload,
                    size_t payload_bytes, uint64_t length) {
    const auto session = sessions.find(context_.clone_session);
    if (session == sessions.end()) return;
    Meta clone_meta{};
    StdMeta clone_std{};
    Program::preserve(context_.clone_list, clone_meta, clone_std, meta, std_meta);
    clone_std.instance_type = bit<32>(egress_clone);
    send_clone(session->second, headers, clone_meta, clone_std, {payload, payload_bytes, length, ~0u});
  }

  static constexpr uint32_t most_misfits = 64;
  // A packet that goes round at once: what egress left of it, by reference, and the metadata of its next pass.
  struct Round {
    bool pending = false;
    bool fits = true;  // the parser extracts what the deparser emitted, as a rule
    uint32_t misfits = 0;
    EmittedHeaders emitted;
    const uint8_t* payload = nullptr;
    size_t payload_bytes = 0;
    const Headers* from = nullptr;
    const Meta* from_meta = nullptr;
    const StdMeta* from_std_meta = nullptr;
    int list = no_field_list;
    int current = 0;
    Meta meta[2];
    StdMeta std_meta[2];
    Bytes bytes[2];
  };

  // A packet in egress before it waits: copies, as it may have to be done again.
  struct Early {
    uint32_t misfits = 0;  // more than fits
    Headers headers;
    Meta meta;
    StdMeta std_meta;
  };

  // The packet that was rehearsed last, until another comes in.
  struct Announced {
    static constexpr size_t most_bytes = 256;
    Headers headers;
    size_t bytes = 0;  // none
    size_t consumed = 0;
    uint8_t copy[most_bytes];  // the caller may put another packet in the place of this one

    void set(const uint8_t* data, size_t size, size_t consumed_) {
      if (size > most_bytes) return;
      bytes = size;
      consumed = consumed_;
      std::memcpy(copy, data, size);
    }
    bool is(const uint8_t* data, size_t size) const {
      return bytes != 0 && bytes == size && std::memcmp(copy, data, size) == 0;
    }
  };

  Headers headers_[2]{};
  Headers clone_headers_{};
  Announced announced_;
  Round round_;
  Early early_;
  Bytes round_bytes_;  // of what goes round, until they are an item's
  uint64_t left_ = 0;  // packets that passes left behind
  uint64_t budget_ = 0;
  uint32_t source_ = 0, rounds_ = 0;
  bool stopped_ = false;
};

}  // namespace p4
