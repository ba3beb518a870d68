// Lower bounds (bound_search.h) on the steps of a program at all of its price points together: the sum of the
// bounds at each point, weighted by its number of steps.
#pragma once

#include <cstddef>
#include <vector>

#include "split/bound_search.h"
#include "split/plan_bounds.h"
#include "split/plan_space.h"

namespace braid::split {

class StepBounds {
 public:
  // `cells` is the cell limit of the relaxed problems at first (BoundOptions); `known` are bounds of the sum.
  // `plans` must outlive this. Without SearchOptions::bounds all bounds are 0.
  StepBounds(const PlanSpace& plans, std::size_t cells, const KnownBounds& known = {});

  // Bounds one plan.
  PlanBounds of_plan(const Assignment& choice);
  // Bounds all plans; `seed` is a good one. Looks closer, with kMostRelaxed cells, if the relaxed problems
  // leave something out and the bounds are not enough for `known`.
  PlanBounds over_plans(const Assignment& seed);

 private:
  template <class AtPoint>
  PlanBounds sum(const AtPoint& at_point);

  const PlanSpace& plans_;
  KnownBounds known_;
  bool closer_;                      // whether a higher limit can give closer bounds
  std::vector<BoundSearch> bounds_;  // by point
};

}  // namespace braid::split
