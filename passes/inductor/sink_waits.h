// Moves every wait down to the first node that needs it, followed by its release; nothing else moves.
//
// Source: PyTorch, torch/_inductor/comms.py, sink_waits (first generation, 2023): one scan that holds waits
// back until a user comes. Here all dependencies count as users: readers, writers of pinned memory, and the
// channel policy. Held nodes that are due at the same node come in input order; those without a user go to
// the end. O(dependencies).
#pragma once

#include <string_view>

#include "passes/pass.h"
#include "passes/pass_context.h"

namespace braid::passes {

struct SinkWaits {
  static constexpr std::string_view kName = "sink_waits";
  static constexpr std::string_view kDescription = "moves waits down to their first user";

  bool run(ir::Schedule& schedule, PassContext& context);
};

}  // namespace braid::passes
