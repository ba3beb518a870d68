// Lower bounds on the makespan of any order, under the simulator's own rules (simulator.h), contention
// included.
//
//   critical_path  the longest chain of dependencies without any slow-down; collectives that are issued in a
//                  fixed order on one channel form a chain too
//   load           the busiest resource: compute stream, a channel, a fabric
//   head_and_tail  per resource: each job begins after its head (the longest chain before it) and is followed
//                  by its tail; Jackson's preemptive one-machine schedule of these jobs is a bound
//   contention     a linear program over the time in which compute and communication are both busy: each
//                  slows the other down. A collective overlaps only compute that is neither before nor after
//                  it. The bound is sharper if it also counts the time at both ends in which one of the two
//                  cannot have begun yet or must have ended
//   input          of the graph as it was read: no merging, splitting or change of algorithm beats it. All of
//                  the above with each collective at its floor, without the order on channels
//
// Method of the contention bound. Let B be the time in which both are busy. The least slowed-down classes of
// compute work are overlapped first (each costs B * (s - 1) / s more than alone); on each fabric, the least
// slowed-down collectives hide the most in B. With X the time in which only collectives run,
//   T >= sum(work) + extra(B) + X,   X >= load of a fabric - hidden(B) for every fabric,
// which is convex in B and minimised by ternary search. For windows [r, T - q] the same holds for the work
// that cannot lie outside.
#pragma once

#include "analysis/problem.h"

namespace braid::analysis {

struct Bounds {
  Time critical_path, load, head_and_tail, contention;
  Time best() const;  // the largest
};
// Returns bounds for all orders that keep the problem's dependencies. O(n log n), plus one pass over all
// edges per 512 collectives.
Bounds lower_bounds(const Problem& problem);
// Returns the bound of the input graph. If passes may reorder collectives, make the problem without channel
// order.
Time input_bound(const Problem& problem);

// Jackson's preemptive schedule of jobs on one machine: a lower bound of max(end + tail).
struct Job {
  Time head, work, tail;
};
Time one_machine_bound(std::vector<Job> jobs);

}  // namespace braid::analysis
