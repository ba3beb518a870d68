// The costs of a pair of variables of a network.
#pragma once

#include <utility>
#include <vector>

#include "solver/cost_table.h"

namespace braid::solver {

// Costs of a pair: its own, or a table that others share until it is edited. Most tables a reduction creates
// have one owner and a short life.
class PairCosts {
 public:
  PairCosts() = default;
  PairCosts(std::vector<Cost> own) : own_(std::move(own)) {}
  PairCosts(CostTable shared) : shared_(std::move(shared)) {}

  const std::vector<Cost>& costs() const { return shared_.empty() ? own_ : shared_.costs(); }
  std::size_t size() const { return costs().size(); }
  const Cost* data() const { return costs().data(); }
  Cost operator[](std::size_t index) const { return data()[index]; }
  std::vector<Cost>& edit() {
    if (!shared_.empty()) own_ = std::exchange(shared_, CostTable()).costs();
    return own_;
  }
  // Makes the costs shareable from now on.
  const CostTable& share() {
    if (!own_.empty()) shared_ = CostTable(std::exchange(own_, {}));
    return shared_;
  }
  friend bool operator==(const PairCosts& a, const CostTable& b) {
    return &a.costs() == &b.costs() || a.costs() == b.costs();
  }

 private:
  CostTable shared_;
  std::vector<Cost> own_;  // if nothing is shared
};

}  // namespace braid::solver
