// A rival to compare with: every collective starts as early, and every wait comes as late, as it can.
//
// The nodes that a start needs come first, in the order of the collectives that need them; a wait comes right
// before its first user. This takes Inductor's raise_comms and sink_waits to the extreme and is the usual
// hand-written order; costs and memory do not count.
#pragma once

#include <string_view>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct EarliestStartLatestWait {
  static constexpr std::string_view kName = "earliest_start_latest_wait";
  static constexpr std::string_view kDescription =
      "rival: starts as early, waits as late as dependencies allow";

  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
