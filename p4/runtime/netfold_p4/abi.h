// The C ABI of a generated program's shared library. Included once, at the end, with NETFOLD_PROGRAM defined.
// Objects (tables, registers, ...) are numbered in the order of the program's schema. Nothing here throws.
#pragma once

#include <exception>

#include "v1model.h"

namespace p4 {
using Engine = Switch<NETFOLD_PROGRAM>;
inline Engine* engine(void* handle) { return static_cast<Engine*>(handle); }
inline ActionCall call_of(int action, const uint8_t* data, int bytes) {
  return {action, std::vector<uint8_t>(data, data + bytes)};
}
}  // namespace p4

extern "C" {

int nf_abi_version() { return 1; }
// Null if there is no memory for the program's state.
void* nf_create(uint64_t seed) {
  try {
    return new p4::Engine(seed);
  } catch (const std::exception&) {
    return nullptr;
  }
}
void nf_destroy(void* h) { delete p4::engine(h); }

// Packet i is data[ends[i-1]..ends[i]); it arrives on ports[i] at now_us + i * step_us.
void nf_receive(void* h, uint64_t count, const uint8_t* data, const uint64_t* ends, const uint32_t* ports,
                uint64_t now_us, uint64_t step_us) {
  p4::Engine* e = p4::engine(h);
  for (uint64_t i = 0, start = 0; i < count; ++i) {
    e->receive(ports[i], data + start, ends[i] - start, now_us + i * step_us, uint32_t(i));
    start = ends[i];
  }
}
// What came out since the last clear; the pointers hold until the next receive or clear.
uint64_t nf_output(void* h, const uint8_t** data, const uint64_t** ends, const uint32_t** ports,
                   const uint32_t** sources) {
  p4::Engine* e = p4::engine(h);
  *data = e->out.data();
  *ends = e->ends.data();
  *ports = e->ports.data();
  *sources = e->sources.data();
  return e->ends.size();
}
void nf_clear_output(void* h) { p4::engine(h)->clear_output(); }
// passes through ingress or egress, packets stopped by the pass limit, failed assertions
void nf_statistics(void* h, uint64_t* three) {
  three[0] = p4::engine(h)->passes;
  three[1] = p4::engine(h)->runaways;
  three[2] = p4::engine(h)->context().failed_assertions;
}

// ---- tables: an entry's number, or a negative status

int nf_table_insert(void* h, int table, const uint8_t* key, const uint8_t* mask, int prefix, int64_t priority,
                    int action, const uint8_t* data, int bytes) {
  return p4::engine(h)->program.tables[size_t(table)]->insert(key, mask, prefix, priority,
                                                              p4::call_of(action, data, bytes));
}
int nf_table_find(void* h, int table, const uint8_t* key, const uint8_t* mask, int prefix, int64_t priority) {
  return p4::engine(h)->program.tables[size_t(table)]->find(key, mask, prefix, priority);
}
int nf_table_modify(void* h, int table, int entry, int action, const uint8_t* data, int bytes) {
  return p4::engine(h)->program.tables[size_t(table)]->modify(entry, p4::call_of(action, data, bytes));
}
int nf_table_erase(void* h, int table, int entry) {
  return p4::engine(h)->program.tables[size_t(table)]->erase(entry);
}
void nf_table_default(void* h, int table, int action, const uint8_t* data, int bytes) {
  p4::engine(h)->program.tables[size_t(table)]->set_default(p4::call_of(action, data, bytes));
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

// ---- registers, counters, meters

uint64_t nf_register(void* h, int index, void** data, int* element_bytes) {
  const p4::RegisterView v = p4::engine(h)->program.registers[size_t(index)];
  *data = v.data;
  *element_bytes = v.element_bytes;
  return v.count;
}
uint64_t nf_counter(void* h, int index, uint64_t** packets, uint64_t** bytes) {
  p4::Counter* c = p4::engine(h)->program.counters[size_t(index)];
  *packets = c->packets();
  *bytes = c->bytes();
  return c->size();
}
int nf_meter_configure(void* h, int index, uint64_t cell, double cir, double cbs, double pir, double pbs,
                       uint64_t now_us) {
  return p4::engine(h)->program.meters[size_t(index)]->configure(cell, cir, cbs, pir, pbs, now_us) ? 0
                                                                                                    : p4::not_found;
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
void nf_digest_clear(void* h) { p4::engine(h)->context().digests.clear(); }

}  // extern "C"
