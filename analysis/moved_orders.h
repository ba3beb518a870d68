// Finds the makespan of an order with a few nodes in other places. The order 0, 1, 2, ... is simulated once.
// An order that differs from it in a range is simulated only from a checkpoint before the range until both
// states agree again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/simulator.h"

namespace braid::analysis {

class MovedOrders {
 public:
  explicit MovedOrders(const Problem& problem);  // which must outlive it

  Time makespan() const { return makespan_; }
  // When the stream reaches a node, or the end (the number of nodes).
  Time begin(NodeId node) const { return begin_[node]; }
  // Returns the makespan of the order that has `nodes` at `first` and the places after it. They must be a
  // permutation of the nodes that stand there.
  Time makespan_with(NodeId first, std::span<const NodeId> nodes);
  // Nodes that were simulated so far.
  std::int64_t appends() const { return appends_; }

 private:
  const Problem& problem_;
  IdVector<int, Simulator> checkpoints_;  // one every kStride nodes (moved_orders.cc)
  IdVector<NodeId, Time> begin_;
  Time makespan_;
  std::int64_t appends_ = 0;
};

}  // namespace braid::analysis
