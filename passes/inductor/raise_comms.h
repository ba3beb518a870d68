// Moves every start up to the last node that it needs; nothing else moves.
//
// Source: PyTorch, torch/_inductor/comms.py, raise_comms (first generation, 2023): one scan from the end that
// holds starts back until one of their inputs comes. Starts keep their order: no start passes an earlier one
// that has to stay. A collective without inputs goes to the top (the source fails on one). Nodes between an
// input and its start (a cast, a copy into place) do not move; schedule_for_comm moves them. O(dependencies).
#pragma once

#include <string_view>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct RaiseComms {
  static constexpr std::string_view kName = "raise_comms";
  static constexpr std::string_view kDescription = "moves starts of collectives up to their last input";

  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
