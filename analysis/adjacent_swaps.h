// An order that changes by swaps of neighbours, with the live bytes at every position kept exact, in-place
// reuse included.
//
// What is live while a position executes depends on the set of nodes before it and on the node itself, so a
// swap changes two positions only: O(tenants that the two nodes touch).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/memory_model.h"
#include "analysis/problem.h"

namespace braid::analysis {

class AdjacentSwaps {
 public:
  // Begins with the order 0, 1, 2, ... `memory` must outlive it.
  AdjacentSwaps(const Problem& problem, const MemoryModel& memory);

  std::span<const int> order() const { return order_; }
  int at(int position) const { return order_[static_cast<std::size_t>(position)]; }
  int position(int node) const { return position_[static_cast<std::size_t>(node)]; }
  std::int64_t live(int position) const { return live_[static_cast<std::size_t>(position)]; }

  // Swaps the nodes at `position` and `position + 1`; the larger of the two new live sizes. Undone by itself.
  std::int64_t swap(int position);

 private:
  // Bytes that a node adds while it executes, and takes away after it.
  struct Change {
    std::int64_t born = 0, dead = 0;
  };
  Change change_at(int node) const;

  const MemoryModel& memory_;
  std::vector<int> order_, position_;
  std::vector<std::int64_t> before_, live_;  // in front of each position, and while it executes
  std::vector<int> first_, last_;            // per tenant: nodes; last -1: lives to the end
};

}  // namespace braid::analysis
