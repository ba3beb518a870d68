// Lower bounds on the makespan of any order, under the simulator's own rules (simulator.h), contention
// included.
//
//   critical_path  longest chain of dependencies, nothing slowed down
//   load           the busiest resource: compute stream, a channel, a fabric
//   head_and_tail  per resource: every job can begin only after its head (longest chain before it) and is
//   followed by its
//                  tail; the preemptive one-machine schedule (Jackson) is a bound
//   contention     linear program over how long both are busy: compute work that runs beside collectives is
//   slowed down,
//                  collectives that run beside compute too; sharper with the time at both ends where one of
//                  them cannot have begun yet or must have ended
//   input          of the graph as it was read: no merging, splitting or other algorithm of collectives beats
//   it. All
//                  of the above with each collective at its floor, and where merging could hide latencies,
//                  without them
#pragma once

#include "passes/overlap/problem.h"

namespace braid::passes {

struct Bounds {
  Time critical_path, load, head_and_tail, contention;
  Time best() const;  // the largest
};
// O(n log n).
Bounds lower_bounds(const Problem& problem);
// Of the input graph.
Time input_bound(const Problem& problem);

}  // namespace braid::passes
