// The pipeline of simple_switch around a generated program: parser, checksums, ingress, replication, egress,
// deparser, and the ways back in (resubmit, recirculate, clone). Packets that wait do so in one work queue.
#pragma once

#include <deque>
#include <map>

#include "context.h"

namespace p4 {

constexpr uint64_t drop_port = 511;
constexpr uint64_t max_passes_per_packet = 1 << 20;

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

template <class Program>
class Switch {
  using Headers = typename Program::Headers;
  using Meta = typename Program::Meta;
  using StdMeta = typename Program::StdMeta;

 public:
  explicit Switch(uint64_t seed) { context_.random.seed(seed); }

  Program program;
  std::map<uint32_t, std::vector<Replica>> groups;
  std::map<uint32_t, CloneSession> sessions;

  // Output packets since the last clear: bytes of packet i are out[ends[i-1]..ends[i]).
  std::vector<uint8_t> out;
  std::vector<uint64_t> ends;
  std::vector<uint32_t> ports, sources;
  uint64_t passes = 0, runaways = 0;

  Context& context() { return context_; }

  // One packet in; everything that comes of it out. `source` is the caller's number for it.
  void receive(uint32_t port, const uint8_t* data, size_t bytes, uint64_t now_us, uint32_t source) {
    context_.now_us = now_us;
    source_ = source;
    passes_left_ = max_passes_per_packet;
    Meta meta{};
    StdMeta std_meta{};
    std_meta.ingress_port = bit<9>(uint16_t(port));
    ingress(data, bytes, meta, std_meta);
    while (!work_.empty()) {
      Work w = std::move(work_.front());
      work_.pop_front();
      if (w.to_egress) egress(w.headers, w.meta, w.std_meta, w.bytes.data(), w.bytes.size(), w.length, w.truncate);
      else ingress(w.bytes.data(), w.bytes.size(), w.meta, w.std_meta);
    }
  }
  void clear_output() {
    out.clear();
    ends.clear();
    ports.clear();
    sources.clear();
  }

 private:
  struct Work {
    bool to_egress;
    std::vector<uint8_t> bytes;  // the whole packet, or for egress the payload behind the headers
    Headers headers;
    Meta meta;
    StdMeta std_meta;
    uint64_t length;
    uint32_t truncate;
  };

  bool pass() {
    ++passes;
    if (passes_left_ == 0) {
      ++runaways;
      return false;
    }
    --passes_left_;
    return true;
  }

  // The bytes left behind the parsed headers.
  size_t parse(const uint8_t* data, size_t bytes, Headers& headers, Meta& meta, StdMeta& std_meta) {
    PacketIn in(data, bytes);
    try {
      program.parse(context_, in, headers, meta, std_meta);
    } catch (const ParserError& error) {
      // The packet goes on (v1model): the program reads parser_error.
      std_meta.parser_error = decltype(std_meta.parser_error)(error.code);
    }
    return in.consumed_bytes();
  }

  void ingress(const uint8_t* data, size_t bytes, Meta& meta, StdMeta& std_meta) {
    if (!pass()) return;
    Headers headers{};
    context_.begin();
    context_.packet_bytes = bytes;
    std_meta.packet_length = bit<32>(uint32_t(bytes));
    std_meta.ingress_global_timestamp = bit<48>(context_.now_us);
    const size_t consumed = parse(data, bytes, headers, meta, std_meta);
    const uint8_t* payload = data + consumed;
    const size_t payload_bytes = bytes - consumed;
    context_.payload = payload;
    context_.payload_bytes = payload_bytes;
    program.verify(context_, headers, meta);
    std_meta.checksum_error = bit<1>(context_.checksum_error);
    context_.exited = false;
    program.ingress(context_, headers, meta, std_meta);

    const uint32_t truncate = context_.truncate_bytes;
    if (context_.clone_requested) clone_ingress(data, bytes, meta, std_meta);
    if (context_.resubmit_requested) {
      Work w = waiting(false, data, bytes, bytes);
      Program::preserve(context_.resubmit_list, w.meta, w.std_meta, meta, std_meta);
      w.std_meta.instance_type = bit<32>(resubmitted);
      work_.push_back(std::move(w));
      return;
    }
    if (std_meta.mcast_grp.u64() != 0) {
      std_meta.instance_type = bit<32>(replicated);
      replicate(uint32_t(std_meta.mcast_grp.u64()), headers, meta, std_meta, payload, payload_bytes, bytes, truncate);
      return;
    }
    if (std_meta.egress_spec.u64() == drop_port) return;
    std_meta.instance_type = bit<32>(normal);
    std_meta.egress_port = std_meta.egress_spec;
    egress(headers, meta, std_meta, payload, payload_bytes, bytes, truncate);
  }

  void egress(Headers& headers, Meta& meta, StdMeta& std_meta, const uint8_t* payload, size_t payload_bytes,
              uint64_t length, uint32_t truncate) {
    if (!pass()) return;
    context_.begin();
    context_.truncate_bytes = truncate;
    context_.packet_bytes = length;
    context_.payload = payload;
    context_.payload_bytes = payload_bytes;
    std_meta.egress_global_timestamp = bit<48>(context_.now_us);
    std_meta.enq_timestamp = bit<32>(uint32_t(context_.now_us));
    std_meta.packet_length = bit<32>(uint32_t(length));
    std_meta.egress_spec = bit<9>();
    const uint32_t port = uint32_t(std_meta.egress_port.u64());
    program.egress(context_, headers, meta, std_meta);
    const uint32_t cut = context_.truncate_bytes;
    if (context_.clone_requested) clone_egress(headers, meta, std_meta, payload, payload_bytes, length);
    if (std_meta.egress_spec.u64() == drop_port) return;
    const bool recirculate = context_.recirculate_requested;
    const int list = context_.recirculate_list;
    context_.exited = false;
    program.compute(context_, headers, meta);

    const size_t start = out.size();
    PacketOut packet(out);
    context_.exited = false;
    program.deparse(context_, packet, headers);
    out.insert(out.end(), payload, payload + payload_bytes);
    if (out.size() - start > cut) out.resize(start + cut);
    if (recirculate) {
      Work w = waiting(false, out.data() + start, out.size() - start, out.size() - start);
      out.resize(start);
      Program::preserve(list, w.meta, w.std_meta, meta, std_meta);
      w.std_meta.instance_type = bit<32>(recirculated);
      work_.push_back(std::move(w));
      return;
    }
    ends.push_back(out.size());
    ports.push_back(port);
    sources.push_back(source_);
  }

  Work waiting(bool to_egress, const uint8_t* data, size_t bytes, uint64_t length) {
    return Work{to_egress, std::vector<uint8_t>(data, data + bytes), Headers{}, Meta{}, StdMeta{}, length, ~0u};
  }

  void replicate(uint32_t group, const Headers& headers, const Meta& meta, const StdMeta& std_meta,
                 const uint8_t* payload, size_t payload_bytes, uint64_t length, uint32_t truncate) {
    const auto found = groups.find(group);
    if (found == groups.end()) return;
    for (const Replica& replica : found->second) {
      Work w{true, std::vector<uint8_t>(payload, payload + payload_bytes), headers, meta, std_meta, length, truncate};
      w.std_meta.egress_rid = bit<16>(uint16_t(replica.rid));
      w.std_meta.egress_port = bit<9>(uint16_t(replica.port));
      work_.push_back(std::move(w));
    }
  }

  // The clone of a session goes to its port, its group, or both.
  void send_clone(const CloneSession& session, Work w) {
    w.to_egress = true;
    w.truncate = session.truncate_bytes;
    if (session.group != 0)
      replicate(session.group, w.headers, w.meta, w.std_meta, w.bytes.data(), w.bytes.size(), w.length, w.truncate);
    if (session.port >= 0) {
      w.std_meta.egress_port = bit<9>(uint16_t(session.port));
      work_.push_back(std::move(w));
    }
  }

  // A clone from ingress is the packet as it came in, parsed again.
  void clone_ingress(const uint8_t* data, size_t bytes, const Meta& meta, const StdMeta& std_meta) {
    const auto session = sessions.find(context_.clone_session);
    if (session == sessions.end()) return;
    Work w = waiting(true, data, bytes, bytes);
    w.std_meta.ingress_port = std_meta.ingress_port;
    const size_t consumed = parse(data, bytes, w.headers, w.meta, w.std_meta);
    w.bytes.erase(w.bytes.begin(), w.bytes.begin() + long(consumed));
    w.meta = Meta{};
    w.std_meta = StdMeta{};
    Program::preserve(context_.clone_list, w.meta, w.std_meta, meta, std_meta);
    w.std_meta.instance_type = bit<32>(ingress_clone);
    send_clone(session->second, std::move(w));
  }
  // A clone from egress has the headers as egress left them.
  void clone_egress(const Headers& headers, const Meta& meta, const StdMeta& std_meta, const uint8_t* payload,
                    size_t payload_bytes, uint64_t length) {
    const auto session = sessions.find(context_.clone_session);
    if (session == sessions.end()) return;
    Work w = waiting(true, payload, payload_bytes, length);
    w.headers = headers;
    Program::preserve(context_.clone_list, w.meta, w.std_meta, meta, std_meta);
    w.std_meta.instance_type = bit<32>(egress_clone);
    send_clone(session->second, std::move(w));
  }

  Context context_;
  std::deque<Work> work_;
  uint64_t passes_left_ = 0;
  uint32_t source_ = 0;
};

}  // namespace p4
