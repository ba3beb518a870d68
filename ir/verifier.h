// The invariants of every schedule, checked after every pass.
//
//   structure  every operation occurs at most once; types, operands and shapes are valid
//              (ir/operation_check.h); indices and operands stay within their memory, as far as that is
//              decidable; constants are never written; ranks and groups exist; fused nodes follow
//              ir/fused_loops.h
//   order      a name identifies a version of memory: a read of it comes after everything that makes this
//              version and before anything that overwrites its bytes (RAW, WAR, WAW over byte ranges)
//   flight     every start has one wait after it; nothing touches its outputs in between, and nothing writes
//              its inputs before the wait, or before the release if there is one; a collective whose memory
//              peers read directly has a release
//   regions    the same rules hold inside; a branch contains no collective; no result overwrites a value
//              that is yet to be yielded; a loop that may run zero times mutates existing values
//   memory     planned storages that live at the same time share no bytes, except for in-place reuse; they
//              are aligned and large enough for the upper bounds of all dimensions; live_peak <= planned
//              bytes
//
// Near-linear, except for storages with many writes, where reads and writes are compared pairwise.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/schedule.h"

namespace braid::ir {

struct Violation {
  std::string rule;  // structure, order, flight, regions, memory
  std::string node;  // operation or storage
  std::string message;
};

std::vector<Violation> verify(const Schedule& schedule);

// Throws an InternalError that names the pass and the first violations.
void check(const Schedule& schedule, std::string_view after_pass);

}  // namespace braid::ir
