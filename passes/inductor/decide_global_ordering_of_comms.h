// Fixes the order in which the collectives of a rank may be issued: that of the input.
//
// Source: PyTorch, torch/_inductor/comms.py, decide_global_ordering_of_comms (first generation, 2023), which
// knows only the policy `global`.
//
// Dependencies of collectives on each other follow from the channel policy of the schedule
// (ir/dependencies.h): `global` chains all of them, `communicator` those of each communicator, `pair` and
// `edge` the sends and receives of each pair of ranks and of each direction. The first-generation passes
// (sink_waits, raise_comms, reorder_compute_for_overlap) need the total chain: without it they would change
// the order in which ranks issue collectives. A program stays as it is if its ranks could then deadlock
// (another collective starts between a send and its receive).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace braid::passes {

struct DecideGlobalOrderingOfComms {
  static constexpr std::string_view kName = "decide_global_ordering_of_comms";
  static constexpr std::string_view kDescription = "chains the collectives in their present order";

  std::string policy = "global";

  static std::vector<PassOption<DecideGlobalOrderingOfComms>> options() {
    return {{"policy", &DecideGlobalOrderingOfComms::policy, "global, communicator, pair or edge"}};
  }
  // User error 542 for another policy.
  bool run(ir::Schedule& schedule);
};

}  // namespace braid::passes
