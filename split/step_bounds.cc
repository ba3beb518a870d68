#include "split/step_bounds.h"

#include <algorithm>
#include <utility>

#include "split/found_plan.h"

namespace braid::split {

StepBounds::StepBounds(const PlanSpace& plans, std::size_t cells, const KnownBounds& known)
    : plans_(plans),
      known_(known),
      closer_(cells < SplitSpace::kMostRelaxed && plans.space.leaves_out(cells)) {
  if (!plans.options.bounds) return;
  for (const PricePoint& p : plans.points.all()) {
    BoundOptions own = bound_options(plans.options, plans.space.mesh(), p.attention_flops);
    own.cells = cells;
    if (!plans.points.several()) own.known = known;
    bounds_.emplace_back(plans.graph, plans.space, p.costs, std::move(own));
  }
}

template <class AtPoint>
PlanBounds StepBounds::sum(const AtPoint& at_point) {
  PlanBounds sum;
  for (std::size_t p = 0; p < bounds_.size(); ++p) {
    const PlanBounds own = at_point(bounds_[p]);
    sum.loads.ps += own.loads.ps * plans_.points.all()[p].steps;
    sum.order.ps += own.order.ps * plans_.points.all()[p].steps;
  }
  return sum;
}

PlanBounds StepBounds::of_plan(const Assignment& choice) {
  return sum([&](BoundSearch& b) { return b.of_plan(choice); });
}

PlanBounds StepBounds::over_plans(const Assignment& seed) {
  PlanBounds all = sum([&](BoundSearch& b) { return b.over_plans(seed, {}, closer_); });
  if (bounds_.empty() || !closer_) return all;
  if (KnownBounds::is_enough(all.loads, known_.loads) && KnownBounds::is_enough(all.order, known_.order))
    return all;
  const PlanBounds more = sum([&](BoundSearch& b) {
    b.relax(SplitSpace::kMostRelaxed);
    const std::vector<Assignment> found = b.found();
    return b.over_plans(seed, found);
  });
  all.loads = std::max(all.loads, more.loads);
  all.order = std::max(all.order, more.order);
  return all;
}

}  // namespace braid::split
