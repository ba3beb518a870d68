#include "passes/overlap/decide_global_ordering_of_comms.h"

#include <algorithm>

#include "ir/error.h"

namespace braid::passes {

using ir::ChannelPolicy;

bool DecideGlobalOrderingOfComms::run(ir::Schedule& schedule) {
  for (ChannelPolicy p :
       {ChannelPolicy::global, ChannelPolicy::communicator, ChannelPolicy::pair, ChannelPolicy::edge}) {
    if (policy != to_string(p)) continue;
    const auto is_collective = [](const ir::Operation& op) {
      return op.as<ir::CollectiveKernel>() != nullptr;
    };
    if (schedule.channels == p || std::ranges::none_of(schedule.graph.ops, is_collective)) return false;
    schedule.channels = p;
    return true;
  }
  ir::user_error(542, {.node = std::string(kName)}, "there is no channel policy '" + policy + "'",
                 "policies: global, communicator, pair, edge");
}

}  // namespace braid::passes
