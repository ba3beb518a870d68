// What must hold for every schedule, after every pass.
//
//   structure  every operation at most once; types, operands and shapes (ir/typing.h); indices and operands
//              within their memory where that can be told; nobody writes a constant; ranks and groups that
//              exist; fused nodes as ir/fused_loops.h says
//   order      names say who reads which version of memory: a read of a name comes after everything that
//              makes this version and before anything that overwrites its bytes (RAW, WAR, WAW over byte
//              ranges)
//   flight     every start has one wait after it; nobody touches its outputs in between, and nobody writes
//              its inputs before the wait, or before the release where there is one; what peers read directly
//              has a release
//   regions    the same inside; no collective under a branch; no result is written over what is still to be
//              yielded; what may run no times changes what there was
//   memory     planned storages that live at the same time share no bytes, but for in-place reuse; they are
//              large enough for the upper bounds of all dimensions and aligned; live_peak <= planned bytes
//
// Near-linear but for storages with many writes, where reads and writes are compared pair by pair.
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

// InternalError that names the pass and the first violations.
void check(const Schedule& schedule, std::string_view after_pass);

}  // namespace braid::ir
