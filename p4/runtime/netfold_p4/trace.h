// What a tracing build records: one line for each step of a packet, its fields separated by tabs. Only a program
// generated for tracing includes this, before the rest of the runtime; in any other build nothing of it is there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace p4::trace {

inline std::string& log() {
  static std::string text;
  return text;
}
inline void put_hex(const void* data, size_t bytes) {
  static const char digits[] = "0123456789abcdef";
  const auto* p = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < bytes; ++i) {
    log() += digits[p[i] >> 4];
    log() += digits[p[i] & 15];
  }
}
inline void begin(const char* kind) { (log() += '\n') += kind; }
inline void put(const char* text) { (log() += '\t') += text; }
inline void put(uint64_t value) { (log() += '\t') += std::to_string(value); }
inline void put(int value) { (log() += '\t') += std::to_string(value); }

inline void state(const char* parser, const char* name) {
  begin("state");
  put(parser);
  put(name);
}
// A header read from the packet ("extract") or written to it ("emit"), as the bytes that it has there.
template <class H>
void header(const char* kind, const char* name, const char* type, const H& header) {
  if (!header.valid_) return;
  std::vector<uint8_t> bytes((header.size_bits() + 7) / 8 + 1);
  header.write(bytes.data());
  begin(kind);
  put(name);
  put(type);
  put("");
  put_hex(bytes.data(), (header.size_bits() + 7) / 8);
}
template <class StdMeta>
void control(const char* name, const StdMeta& s) {
  begin("control");
  put(name);
  put(s.instance_type.u64());
  put(s.egress_rid.u64());
  put(s.checksum_error.u64());
  put(uint64_t(s.parser_error));
}
inline void control(const char* name) {
  begin("control");
  put(name);
}
inline void table(const char* name, const void* key, size_t key_bytes, int entry, int action,
                  const std::vector<uint8_t>& data) {
  begin("table");
  put(name);
  put(entry);
  put(action);
  put("");
  put_hex(key, key_bytes);
  put("");
  put_hex(data.data(), data.size());
}
inline void action(const char* name) {
  begin("action");
  put(name);
}
// Registers, counters and meters are known by an address (trace_abi.h); `size` is how many cells there are.
inline void access(const char* kind, const void* object, uint64_t index, uint64_t size, const void* before,
                   const void* after, size_t bytes) {
  begin(kind);
  put(uint64_t(reinterpret_cast<uintptr_t>(object)));
  put(index);
  put(size);
  put("");
  put_hex(before, index < size ? bytes : 0);
  put("");
  put_hex(after, index < size ? bytes : 0);
}

}  // namespace p4::trace

#define NETFOLD_TRACE_ACCESS(...) p4::trace::access(__VA_ARGS__)
