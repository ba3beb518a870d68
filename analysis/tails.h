// How long the rest of a program takes from a node on: the priorities of the list scheduler and the estimates
// of the local search. All in picoseconds, without contention.
#pragma once

#include <cstdint>

#include "analysis/problem.h"

namespace braid::analysis {

using NodeTails = IdVector<NodeId, std::int64_t>;
// Per node: the longest chain of dependencies from its begin to the end of the program, collectives between
// their start and their wait included. O(nodes + dependencies).
NodeTails path_tails(const Problem& problem);
// The same, but each channel also runs its collectives one after another in the given order.
NodeTails channel_tails(const Problem& problem, OrderView order);

// Tails with bounded patience: no node is less urgent than the most urgent one at least `window` positions
// further down in the reference. 0: in the order of the reference; a large window: `tails` themselves. A
// delayed node holds memory.
NodeTails aged_tails(const NodeTails& tails, OrderView reference, int window);

// For one order: how long the rest takes from each position on, on the compute stream and on the channels.
struct OrderTails {
  IdVector<Position, std::int64_t> stream;          // and 0 after the last
  IdVector<CollectiveId, std::int64_t> collective;  // from when it begins
  IdVector<CollectiveId, std::int64_t> wait;        // from its wait on; 0 without a wait
};
OrderTails order_tails(const Problem& problem, OrderView order);

// The same program backwards in time: waits become starts. Node n becomes node `virtuals + size - 1 - n`; the
// first `virtuals` nodes start the collectives that have no wait.
struct ReversedProblem {
  Problem problem;
  int virtuals = 0;
  // The node in the other problem, once all steps have been added.
  NodeId mirror(NodeId n) const { return NodeId{problem.size() - 1} - n.index; }
  // An order of the reversed nodes as one of the nodes.
  Order order(OrderView reversed) const;
};
ReversedProblem reversed(const Problem& problem);

}  // namespace braid::analysis
