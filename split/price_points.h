// One plan for several sets of sizes, such as a prefill and many steps of a decode. The problems of one space
// differ only in their costs, so they are added with the numbers of steps as weights. The optimum of the sum
// is as exact as each.
#pragma once

#include <cstdint>
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
  // The steps at all points.
  std::int64_t steps() const;
  // Returns the space's problem at the first point, with all others added. Requires a space that is not
  // large.
  Problem problem(const SplitSpace& space, const SplitCostOptions& options) const;
  // Adds the other points to the problem of the first one.
  void add_others(Problem& problem, const SplitSpace& space, const SplitCostOptions& options) const;
  // Returns the time of one step of a plan at each point.
  std::vector<analysis::Time> prices(const SplitSpace& space, const Assignment& choice) const;
  // Returns the sum over all steps.
  analysis::Time sum(const std::vector<analysis::Time>& steps) const;

 private:
  std::vector<PricePoint> points_;
};

}  // namespace braid::split
