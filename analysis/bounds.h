// Lower bounds on the makespan of any order, under the simulator's own rules (simulator.h), contention
// included.
//
//   critical_path  longest chain of dependencies, nothing slowed down; collectives that are issued in a fixed
//                  order on one channel are a chain too
//   load           the busiest resource: compute stream, a channel, a fabric
//   head_and_tail  per resource: every job can begin only after its head (the longest chain before it) and is
//                  followed by its tail; the preemptive one-machine schedule (Jackson) is a bound
//   contention     linear program over how long both are busy: compute work that runs beside collectives is
//                  slowed down, and so are collectives that run beside compute. A collective overlaps at most
//                  as much compute as is neither before nor after it; the bound is sharper with the time at
//                  both ends where one of them cannot have begun yet or must have ended
//   input          of the graph as it was read: no merging, splitting or other algorithm of collectives beats
//                  it. All of the above with each collective at its floor, without the order on channels
//
// Method of the contention bound. Let B be the time in which both are busy. Of compute work, the least
// slowed-down classes are overlapped first (each costs B * (s - 1) / s more than alone); on each fabric, the
// least slowed-down collectives hide the most in B. With X the time in which only collectives run,
//   T >= sum(work) + extra(B) + X,   X >= load of a fabric - hidden(B) for every fabric,
// convex in B, minimised by bisection. For windows [r, T - q] the same holds of the work that cannot lie
// outside.
#pragma once

#include "analysis/problem.h"

namespace braid::analysis {

struct Bounds {
  Time critical_path, load, head_and_tail, contention;
  Time best() const;  // the largest
};
// Of all orders that keep the problem's dependencies. O(n log n), plus one pass over all edges per 512
// collectives.
Bounds lower_bounds(const Problem& problem);
// Of the input graph. Make the problem without channel order where passes may reorder collectives.
Time input_bound(const Problem& problem);

// Jackson's preemptive schedule of jobs on one machine: a lower bound of max(end + tail).
struct Job {
  Time head, work, tail;
};
Time one_machine_bound(std::vector<Job> jobs);

}  // namespace braid::analysis
