// How long the rest of a program takes from a node on: the priorities of the list scheduler, the estimates of
// the local search. All in picoseconds, without contention.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/problem.h"

namespace braid::analysis {

// Per node: the longest chain of dependencies from its begin to the end of the program, collectives between
// their start and their wait included. O(nodes + dependencies).
std::vector<std::int64_t> path_tails(const Problem& problem);
// The same, where each channel also runs its collectives one after the other in the given order.
std::vector<std::int64_t> channel_tails(const Problem& problem, std::span<const int> order);

// Tails with bounded patience: no node is less urgent than the most urgent one that stands `window` positions
// further down in the reference. 0: in the order of the reference; many: `tails` themselves. What is put off
// holds memory.
std::vector<std::int64_t> aged_tails(std::span<const std::int64_t> tails, std::span<const int> reference,
                                     int window);

// Of one order: how long the rest takes from each position on, on the compute stream and on the channels.
struct OrderTails {
  std::vector<std::int64_t> stream;      // per position, and 0 behind the last
  std::vector<std::int64_t> collective;  // per collective: from when it begins
  std::vector<std::int64_t> wait;        // per collective: from its wait on; 0 without a wait
};
OrderTails order_tails(const Problem& problem, std::span<const int> order);

// The same program backwards in time: what was a wait is a start. Node n becomes node `virtuals + size - 1 -
// n`; the first `virtuals` nodes start the collectives that nobody waits for.
struct ReversedProblem {
  Problem problem;
  int virtuals = 0;
  // An order of the reversed nodes as one of the nodes.
  std::vector<int> order(std::span<const int> reversed) const;
};
ReversedProblem reversed(const Problem& problem);

}  // namespace braid::analysis
