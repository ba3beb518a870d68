// One plan for several sets of sizes, such as a prefill and many steps of a decode: problems of one space, whose tables differ only in
// their costs, added with the numbers of steps as weights. So the optimum of the sum is exact like that of each.
#pragma once

#include <memory>
#include <vector>

#include "split/candidates.h"
#include "split/machine_costs.h"

namespace braid::split {

class PricePoints {
 public:
  PricePoints(std::shared_ptr<const analysis::CostModel> costs, const SearchOptions& options);

  const std::vector<PricePoint>& all() const { return points_; }
  bool several() const { return points_.size() > 1 || points_[0].steps != 1; }
  // Of the space at the first point, with all others added. Requires a space that is not large.
  Problem problem(const SplitSpace& space, const SplitCostOptions& options) const;
  // Adds the others to the problem of the first point.
  void add_others(Problem& problem, const SplitSpace& space, const SplitCostOptions& options) const;
  // A step of a plan at each point.
  std::vector<analysis::Time> prices(const SplitSpace& space, const std::vector<int>& choice) const;
  // The sum over all steps.
  analysis::Time sum(const std::vector<analysis::Time>& steps) const;

 private:
  std::vector<PricePoint> points_;
};

}  // namespace braid::split
