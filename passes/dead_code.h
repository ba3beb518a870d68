// Drops operations whose results nobody reads, and the names and memory that go with them.
//
// Why: frontends emit every output of an operator, and other passes leave behind what they replaced.
//
//   before                         after
//     a = loops x                    a = loops x
//     b = loops a     (unread)       y = loops a       -> output
//     y = loops a     -> output
//
// Contract
//   1. What is written into memory of the caller (inputs, outputs, constants) or of a graph output stays.
//   2. Everything with a communication effect stays (a collective that one rank drops hangs the others),
//      and so do barriers and opaque kernels that write nothing.
//   3. What a remaining operation reads stays; a mere "must come before" (WeakDep) keeps nothing alive.
//   4. The order of what stays is unchanged.
#pragma once

#include <string_view>

#include "ir/schedule.h"

namespace braid::passes {

struct DeadCode {
  static constexpr std::string_view kName = "dead_code";
  static constexpr std::string_view kDescription = "drops operations, buffers and storages that nobody needs";
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
