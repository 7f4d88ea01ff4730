// The C ABI of a generated program's shared library. Included once, at the end, with NETFOLD_PROGRAM defined.
// Objects (tables, registers, ...) are numbered in the order of the program's schema. Times are nanoseconds on the
// caller's clock (programs see microseconds, as v1model has them). Nothing here throws.
//
// A caller either gives whole packets to the switch (nf_receive, nf_advance) and has its egress queues, or is the
// traffic manager itself (a node of a network simulator) and runs the passes one by one:
//
//     nf_ingress(packet)   parser, checksums, ingress                -> descriptors
//     nf_pass(item)        egress, checksums, deparser; or, for an item that goes round, ingress again
//                                                                    -> descriptors, and output by nf_output
//     nf_discard(item)     it was dropped instead
//
// A descriptor is a packet that waits for its next pass: in the egress queue of `port` at `priority` (next == 0; one
// for unicast, one for each multicast replica and clone), or on its way back to the parser (1 resubmitted, 2
// recirculated out of egress port `port`). The library keeps headers, metadata and payload under the number `item`
// until nf_pass or nf_discard. When it passes, in which order, and what it finds in the queue is the caller's.
// Neither form blocks: a packet that would go round or loop for ever is dropped and counted (nf_statistics).
#pragma once

#include <exception>

#include "switch.h"

namespace p4 {
using Engine = Switch<NETFOLD_PROGRAM>;
inline Engine* engine(void* handle) { return static_cast<Engine*>(handle); }
inline ActionCall call_of(int action, const uint8_t* data, int bytes) {
  return {action, std::vector<uint8_t>(data, data + bytes)};
}
}  // namespace p4

extern "C" {

int nf_abi_version() { return 7; }
// Null if there is no memory for the program's state.
void* nf_create(uint64_t seed) {
  try {
    return new p4::Engine(seed);
  } catch (const std::exception&) {
    return nullptr;
  }
}
void nf_destroy(void* h) { delete p4::engine(h); }

// Packet i is data[ends[i-1]..ends[i]); it arrives on ports[i] at now_ns + i * step_ns.
void nf_receive(void* h, uint64_t count, const uint8_t* data, const uint64_t* ends, const uint32_t* ports,
                uint64_t now_ns, uint64_t step_ns) {
  p4::Engine* e = p4::engine(h);
  for (uint64_t i = 0, start = 0; i < count; ++i) {
    e->receive(ports[i], data + start, ends[i] - start, now_ns + i * step_ns, uint32_t(i));
    start = ends[i];
  }
}
// Time passes without a packet: what is due by now leaves its egress queue.
void nf_advance(void* h, uint64_t now_ns) { p4::engine(h)->advance(now_ns); }
// When the next waiting packet is due; the largest number if none waits.
uint64_t nf_next_due(void* h) { return p4::engine(h)->next_due_ns(); }
// What came out since the last clear; the pointers hold until the next receive or clear. `ahead`: see nf_pass_ahead.
uint64_t nf_output(void* h, const uint8_t** data, const uint64_t** ends, const uint32_t** ports,
                   const uint32_t** sources, const uint8_t** ahead) {
  p4::Engine* e = p4::engine(h);
  *data = e->out.data();
  *ends = e->ends.data();
  *ports = e->ports.data();
  *sources = e->sources.data();
  *ahead = e->ahead.data();
  return e->ends.size();
}
void nf_clear_output(void* h) { p4::engine(h)->clear_output(); }
// Seven numbers that count on as long as the engine lives: passes through ingress or egress, packets stopped because they
// went round for ever, and for a loop without an end, packets dropped by full egress queues, failed assertions, parsers
// that ended in error.ParserTimeout, passes that left nothing of their packet.
const uint64_t* nf_statistics(void* h) {
  static_assert(sizeof(p4::Statistics) == 7 * sizeof(uint64_t));
  return &p4::engine(h)->statistics().passes;
}

// ---- the passes alone (see above); `next` holds until the next call

struct nf_descriptor {
  uint64_t item;
  uint32_t next, port, priority, bytes;
};
uint64_t nf_ingress(void* h, uint32_t port, const uint8_t* data, uint64_t bytes, uint64_t now_ns, uint32_t source,
                    const nf_descriptor** next) {
  static_assert(sizeof(nf_descriptor) == sizeof(p4::Engine::Descriptor));
  const auto& made = p4::engine(h)->ingress_only(port, data, bytes, now_ns, source);
  *next = reinterpret_cast<const nf_descriptor*>(made.data());
  return made.size();
}
// `enqueued_ns`, `enq_qdepth`: when the item entered its queue and what it found there; `deq_qdepth`: what it leaves
// behind. All zero for an item that goes round. No descriptors for a number that is not waiting.
uint64_t nf_pass(void* h, uint64_t item, uint64_t now_ns, uint64_t enqueued_ns, uint32_t enq_qdepth,
                 uint32_t deq_qdepth, const nf_descriptor** next) {
  p4::Engine* e = p4::engine(h);
  *next = nullptr;
  if (!e->holds(item)) return 0;
  const auto& made = e->pass_only(uint32_t(item), now_ns, enqueued_ns, enq_qdepth, deq_qdepth);
  *next = reinterpret_cast<const nf_descriptor*>(made.data());
  return made.size();
}
// Packets that are sent to this port pass egress, and what recirculates out of it passes ingress, within the same call
// of nf_ingress or nf_pass: for a port that leads nowhere and has no rate, in a switch whose passes take no time.
void nf_pass_at_once(void* h, uint32_t port, int yes) { p4::engine(h)->pass_at_once(port, yes != 0); }
// Packets that are sent to this port may pass egress within the same call, before they wait in its queue, if what comes
// of it is the same (codegen/ahead.py): nf_output says which did, and the caller lets them wait. A descriptor for the
// port ends that, as nothing may overtake it: the caller says again when no packet waits there whose egress is to come.
void nf_pass_ahead(void* h, uint32_t port, int yes) { p4::engine(h)->pass_ahead(port, yes != 0); }
// Packets and bytes that recirculated out of a port whose packets pass at once.
void nf_turns(void* h, uint32_t port, uint64_t* two) {
  const p4::InstantPorts::Turns turns = p4::engine(h)->turns(port);
  two[0] = turns.packets;
  two[1] = turns.bytes;
}
// The packet's nf_ingress is likely to be the next call: memory that its pass will read begins to load.
void nf_announce(void* h, uint32_t port, const uint8_t* data, uint64_t bytes) {
  p4::engine(h)->announce(port, data, bytes);
}
// The item's next pass comes soon.
void nf_prefetch(void* h, uint64_t item) { p4::engine(h)->prefetch(item); }
void nf_discard(void* h, uint64_t item) {
  if (p4::engine(h)->holds(item)) p4::engine(h)->discard(uint32_t(item));
}

// ---- egress queues

// The queue of a port and priority (below 0: all eight of the port) gets a rate (0: none) and a depth in packets.
void nf_queue(void* h, uint32_t port, int priority, uint64_t rate_pps, uint64_t depth) {
  p4::engine(h)->limit(port, priority, rate_pps, depth);
}
// packets waiting now, the most that ever waited, dropped; 0 if the port has no queues
int nf_queue_state(void* h, uint32_t port, uint32_t priority, uint64_t* three) {
  const p4::EgressQueue* q = p4::engine(h)->queues().find(port, priority);
  if (q == nullptr) return 0;
  three[0] = q->waiting;
  three[1] = q->most;
  three[2] = q->dropped;
  return 1;
}

// ---- tables: an entry's number, or a negative status

// An entry's action is direct (`action` and data) or, with an action profile, a `member` or a `group` (else -1).

int nf_table_insert(void* h, int table, const uint8_t* key, const uint8_t* mask, int prefix, int64_t priority,
                    int action, const uint8_t* data, int bytes, int member, int group) {
  return p4::engine(h)->program.tables[size_t(table)]->insert(key, mask, prefix, priority,
                                                              p4::call_of(action, data, bytes), {member, group});
}
int nf_table_find(void* h, int table, const uint8_t* key, const uint8_t* mask, int prefix, int64_t priority) {
  return p4::engine(h)->program.tables[size_t(table)]->find(key, mask, prefix, priority);
}
int nf_table_modify(void* h, int table, int entry, int action, const uint8_t* data, int bytes, int member,
                    int group) {
  return p4::engine(h)->program.tables[size_t(table)]->modify(entry, p4::call_of(action, data, bytes),
                                                              {member, group});
}
int nf_table_erase(void* h, int table, int entry) {
  return p4::engine(h)->program.tables[size_t(table)]->erase(entry);
}
void nf_table_default(void* h, int table, int action, const uint8_t* data, int bytes) {
  p4::engine(h)->program.tables[size_t(table)]->set_default(p4::call_of(action, data, bytes));
}
int nf_table_uses(void* h, int table, int member, int group) {
  return p4::engine(h)->program.tables[size_t(table)]->uses({member, group});
}
int nf_entry_counters(void* h, int table, int entry, uint64_t* packets_bytes) {
  p4::Table* t = p4::engine(h)->program.tables[size_t(table)];
  if (!t->is_live(entry)) return p4::not_found;
  packets_bytes[0] = t->entry(entry).packets;
  packets_bytes[1] = t->entry(entry).bytes;
  return p4::ok;
}
int nf_value_set_insert(void* h, int set, const uint8_t* value, const uint8_t* mask) {
  return p4::engine(h)->program.value_sets[size_t(set)]->insert(value, mask);
}
void nf_value_set_clear(void* h, int set) { p4::engine(h)->program.value_sets[size_t(set)]->clear(); }

// ---- action profiles: a member's or a group's number, or a negative status

int nf_member_add(void* h, int profile, int action, const uint8_t* data, int bytes) {
  return p4::engine(h)->program.profiles[size_t(profile)]->add_member(p4::call_of(action, data, bytes));
}
int nf_member_modify(void* h, int profile, int member, int action, const uint8_t* data, int bytes) {
  return p4::engine(h)->program.profiles[size_t(profile)]->modify_member(member, p4::call_of(action, data, bytes));
}
int nf_member_erase(void* h, int profile, int member) {
  return p4::engine(h)->program.profiles[size_t(profile)]->erase_member(member);
}
// `group` < 0: a new one.
int nf_group_set(void* h, int profile, int group, uint64_t count, const int* members) {
  return p4::engine(h)->program.profiles[size_t(profile)]->set_group(group, std::vector<int>(members, members + count));
}
int nf_group_erase(void* h, int profile, int group) {
  return p4::engine(h)->program.profiles[size_t(profile)]->erase_group(group);
}
int nf_profile_has(void* h, int profile, int member, int group) {
  return p4::engine(h)->program.profiles[size_t(profile)]->has({member, group});
}

// ---- registers, counters, meters

// Element i is at data + i * stride.
uint64_t nf_register(void* h, int index, void** data, int* element_bytes, uint64_t* stride) {
  const p4::RegisterView v = p4::engine(h)->program.registers[size_t(index)];
  *data = *v.data;
  *element_bytes = v.element_bytes;
  *stride = v.stride;
  return v.count;
}
uint64_t nf_counter(void* h, int index, uint64_t** packets, uint64_t** bytes) {
  p4::Counter* c = p4::engine(h)->program.counters[size_t(index)];
  *packets = c->packets();
  *bytes = c->bytes();
  return c->size();
}
int nf_meter_configure(void* h, int index, uint64_t cell, double cir, double cbs, double pir, double pbs,
                       uint64_t now_ns) {
  p4::Meter* meter = p4::engine(h)->program.meters[size_t(index)];
  return meter->configure(cell, cir, cbs, pir, pbs, now_ns / 1000) ? p4::ok : p4::not_found;
}

// ---- replication, cloning, digests

void nf_multicast_group(void* h, uint32_t group, uint64_t count, const uint32_t* ports, const uint32_t* rids) {
  auto& members = p4::engine(h)->groups[group];
  members.clear();
  for (uint64_t i = 0; i < count; ++i) members.push_back({ports[i], rids[i]});
}
void nf_clone_session(void* h, uint32_t session, int64_t port, uint32_t group, uint32_t truncate_bytes) {
  p4::engine(h)->sessions[session] = {port, group, truncate_bytes};
}
uint64_t nf_digest_count(void* h) { return p4::engine(h)->context().digests.size(); }
uint64_t nf_digest(void* h, uint64_t index, int* kind, const uint8_t** data) {
  const p4::Digest& d = p4::engine(h)->context().digests[index];
  *kind = d.kind;
  *data = d.data.data();
  return d.data.size();
}
// Lines of log_msg(), not ended by a zero.
uint64_t nf_log_count(void* h) { return p4::engine(h)->context().logged.size(); }
uint64_t nf_log(void* h, uint64_t index, const char** text) {
  const std::string& line = p4::engine(h)->context().logged[index];
  *text = line.data();
  return line.size();
}
// The number of lines that found no room.
uint64_t nf_log_clear(void* h) {
  p4::Context& c = p4::engine(h)->context();
  const uint64_t lost = c.log_lines_lost;
  c.logged.clear();
  c.log_lines_lost = 0;
  return lost;
}
void nf_digest_clear(void* h) { p4::engine(h)->context().digests.clear(); }

}  // extern "C"
