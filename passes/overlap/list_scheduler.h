// Builds an order in one pass over a problem on the state of the simulator itself. At each step the scheduler
// knows what is in flight, what the channels still have to do and when a wait would end, contention included.
//
//   1. Nodes that take no time (views, releases, waits for complete collectives) come at once: they free
//      memory and make others ready.
//   2. A start comes just before its channel would become idle, the most urgent first. An earlier start gains
//      nothing, and a more urgent one that becomes ready meanwhile could no longer overtake it.
//   3. Among the ready computations and the waits that could block, the scheduler takes the one that leaves
//      the shortest rest. The rest is the larger of the remaining computations and the longest tail after the
//      choice. So the stream blocks only if nothing is ready or if the awaited collective is more urgent than
//      everything that is ready.
//
// O((nodes + dependencies) log nodes) appends and heap operations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/live_bytes.h"
#include "analysis/problem.h"

namespace braid::passes {

struct ListRule {
  analysis::IdSpan<analysis::NodeId, const std::int64_t> priority;  // larger is more urgent
  analysis::IdSpan<analysis::NodeId, const std::int64_t>
      tails;                 // ps from its begin to the end (tails.h), for rule 3
  bool may_idle = true;      // rule 3; if false, the stream never blocks while a computation is ready
  bool share_fabric = true;  // if false, a start waits for its fabric, not only for its channel
  int candidates = 4;        // computations that rule 3 considers
  int patience = 16;         // nodes of each kind without admission that it skips
};

// Returns an order under `rule`. `admission` may be null. Otherwise it is asked before each step, and if it
// refuses every candidate, the next node of its reference comes.
analysis::Order list_schedule(const analysis::Problem& problem, const ListRule& rule,
                              analysis::Admission* admission = nullptr);

}  // namespace braid::passes
