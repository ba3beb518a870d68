// One pass over a problem that builds an order on the state of the simulator itself: at each step it knows
// what is in flight, what the channels still have to do and when a wait would end, contention included.
//
//   1. What costs nothing (views, releases, waits for what is complete) comes at once: it frees memory and
//      makes others ready.
//   2. A start comes just before its channel would run empty, the most urgent first: earlier it gains
//      nothing, and could no longer be overtaken by a more urgent one that becomes ready meanwhile.
//   3. Of the ready computations and the waits that could be blocked in, the one that leaves the shortest
//      rest: the larger of the computations that are left and the longest tail, once the choice is made. So
//      the stream stands still only if nothing is ready or if what it waits for is more urgent than all that
//      is ready and cannot wait.
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
  bool may_idle = true;      // rule 3; without, the stream never stands still while a computation is ready
  bool share_fabric = true;  // without: a start waits for its fabric, not only for its channel
  int candidates = 4;        // computations that rule 3 looks at
  int patience = 16;         // nodes without admission that it looks past, of each kind
};

// `admission`: may be null; else it is asked before each step, and where it refuses all the next node of its
// reference comes.
analysis::Order list_schedule(const analysis::Problem& problem, const ListRule& rule,
                              analysis::Admission* admission = nullptr);

}  // namespace braid::passes
