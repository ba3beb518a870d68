#include "passes/inductor/decide_global_ordering_of_comms.h"

#include <algorithm>

#include "analysis/check/check_traces.h"
#include "analysis/order_analysis.h"
#include "ir/collective_trace.h"
#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::passes {

using ir::ChannelPolicy;

namespace {

// Whether ranks can run this program together now, but not with these queues: if something starts between the
// two sides of a transfer.
bool would_block(const ir::Schedule& schedule, ChannelPolicy policy) {
  if (!analysis::has_point_to_point(schedule)) return false;
  ir::CollectiveTrace trace = ir::collective_trace(schedule, schedule.graph.name);
  if (!check::fault_of_all_ranks(trace).empty()) return false;
  trace.channels = policy;
  return !check::fault_of_all_ranks(trace).empty();
}

}  // namespace

bool DecideGlobalOrderingOfComms::run(ir::Schedule& schedule) {
  for (ChannelPolicy p :
       {ChannelPolicy::global, ChannelPolicy::communicator, ChannelPolicy::pair, ChannelPolicy::edge}) {
    if (policy != to_string(p)) continue;
    const auto is_collective = [](const ir::Operation& op) {
      return op.as<ir::CollectiveKernel>() != nullptr;
    };
    if (schedule.channels == p || std::ranges::none_of(schedule.graph.ops, is_collective)) return false;
    if (would_block(schedule, p)) return false;
    schedule.channels = p;
    return true;
  }
  ir::user_error(errors::kBadPassOption, {.node = std::string(kName)},
                 "there is no channel policy '" + policy + "'", "policies: global, communicator, pair, edge");
}

}  // namespace braid::passes
