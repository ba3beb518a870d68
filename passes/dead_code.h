// Drops operations whose results are not read, and the buffers and storages that go with them.
//
// Why: frontends emit every output of an operator, and other passes leave replaced operations behind.
//
//   before                         after
//     a = loops x                    a = loops x
//     b = loops a     (unread)       y = loops a       -> output
//     y = loops a     -> output
//
// Contract
//   1. Writes into memory of the caller (inputs, outputs, constants) or of a graph output stay.
//   2. Everything with a communication effect stays (a collective that one rank drops hangs the others),
//      and so do barriers and opaque kernels that write nothing.
//   3. Inputs of remaining operations stay; an order-only dependency (WeakDep) keeps nothing alive.
//   4. The remaining operations keep their order.
#pragma once

#include <string_view>

#include "ir/schedule.h"

namespace braid::passes {

struct DeadCode {
  static constexpr std::string_view kName = "dead_code";
  static constexpr std::string_view kDescription = "drops unused operations, buffers and storages";
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
