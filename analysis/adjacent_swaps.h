// An order that changes by swaps of neighbours, with the live bytes at every position kept exact, in-place
// reuse included.
//
// What is live while a position executes depends on the set of nodes before it and on the node itself, so a
// swap changes two positions only: O(tenants that the two nodes touch).
#pragma once

#include <cstdint>

#include "analysis/memory_model.h"
#include "analysis/problem.h"

namespace braid::analysis {

class AdjacentSwaps {
 public:
  // Begins with the order 0, 1, 2, ... `memory` must outlive it.
  AdjacentSwaps(const Problem& problem, const MemoryModel& memory);

  const Order& order() const { return order_; }
  NodeId at(Position position) const { return order_[position]; }
  Position position(NodeId node) const { return position_[node]; }
  std::int64_t live(Position position) const { return live_[position]; }

  // Swaps the nodes at `position` and `position + 1`; the larger of the two new live sizes. Undone by itself.
  std::int64_t swap(Position position);

 private:
  // Bytes that a node adds while it executes, and takes away after it.
  struct Change {
    std::int64_t born = 0, dead = 0;
  };
  Change change_at(NodeId node) const;

  const MemoryModel& memory_;
  Order order_;
  IdVector<NodeId, Position> position_;
  IdVector<Position, std::int64_t> before_, live_;  // in front of each position, and while it executes
  IdVector<TenantId, NodeId> first_, last_;         // last invalid: lives to the end
};

}  // namespace braid::analysis
