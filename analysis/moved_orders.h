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
  Time begin(int node) const { return begin_[static_cast<std::size_t>(node)]; }
  // Of the order in which these nodes stand at the positions from `first` on, of which they are a
  // permutation.
  Time makespan_with(int first, std::span<const int> nodes);
  // Nodes that were simulated so far.
  std::int64_t appends() const { return appends_; }

 private:
  const Problem& problem_;
  std::vector<Simulator> checkpoints_;  // in front of every so-manieth node
  std::vector<Time> begin_;
  Time makespan_;
  std::int64_t appends_ = 0;
};

}  // namespace braid::analysis
