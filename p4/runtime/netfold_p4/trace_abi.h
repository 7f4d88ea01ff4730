// What a tracing library offers besides abi.h. Included at the end.
#pragma once

#include "abi.h"
#include "trace.h"

extern "C" {

// The steps recorded since the last clear.
uint64_t nf_trace(void*, const char** text) {
  *text = p4::trace::log().data();
  return p4::trace::log().size();
}
void nf_trace_clear(void*) { p4::trace::log().clear(); }
// By what address a step names a meter.
void* nf_trace_meter(void* h, int index) { return p4::engine(h)->program.meters[size_t(index)]; }

}  // extern "C"
