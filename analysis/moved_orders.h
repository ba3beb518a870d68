// What an order would cost with a few nodes in other places: the order 0, 1, 2, ... is simulated once, an
// order that differs from it in a range only from a checkpoint in front of the range until both states agree
// again.
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
  // Of the order in which these nodes stand in the places of `first` and those behind it, of which they are a
  // permutation.
  Time makespan_with(NodeId first, std::span<const NodeId> nodes);
  // Nodes that were simulated so far.
  std::int64_t appends() const { return appends_; }

 private:
  const Problem& problem_;
  IdVector<int, Simulator> checkpoints_;  // in front of every so-manieth node
  IdVector<NodeId, Time> begin_;
  Time makespan_;
  std::int64_t appends_ = 0;
};

}  // namespace braid::analysis
