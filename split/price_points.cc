#include "split/price_points.h"

#include "ir/error.h"

namespace braid::split {
namespace {

// Computes sum += steps * costs for tables of one shape. All tables forbid the same entries, because no size
// decides whether a conversion exists. Returns whether no sum exceeds kLargestTotal.
bool add(std::vector<Cost>& sum, const std::vector<Cost>& costs, std::int64_t steps) {
  for (std::size_t k = 0; k < sum.size(); ++k) {
    if (sum[k] == kForbidden || costs[k] == kForbidden) {
      sum[k] = kForbidden;
      continue;
    }
    const __int128 total = sum[k] + static_cast<__int128>(costs[k]) * steps;
    if (total > kLargestTotal) return false;
    sum[k] = static_cast<Cost>(total);
  }
  return true;
}

}  // namespace

PricePoints::PricePoints(std::shared_ptr<const analysis::CostModel> costs, const SearchOptions& options) {
  points_.push_back({std::move(costs), options.steps, options.attention_flops});
  points_.insert(points_.end(), options.points.begin(), options.points.end());
}

std::int64_t PricePoints::steps() const {
  std::int64_t steps = 0;
  for (const PricePoint& point : points_) steps += point.steps;
  return steps;
}

void PricePoints::add_others(Problem& problem, const SplitSpace& space,
                             const SplitCostOptions& options) const {
  const auto add_steps = [&](std::vector<Cost>& sum, const std::vector<Cost>& costs, std::int64_t steps) {
    if (add(sum, costs, steps)) return;
    __int128 total = 0;
    for (const PricePoint& point : points_)
      total += largest_total(space.problem(split_costs(point.costs, options))) * point.steps;
    solver::refuse_costs(total);
  };
  const auto times = [&](std::vector<Cost>& costs, std::int64_t steps) {
    std::vector<Cost> sum(costs.size(), 0);
    add_steps(sum, costs, steps);
    costs = std::move(sum);
  };
  if (points_[0].steps != 1) {
    for (CostTable& costs : problem.variables) times(costs.edit(), points_[0].steps);
    for (Edge& edge : problem.edges) times(edge.costs.edit(), points_[0].steps);
  }
  for (std::size_t p = 1; p < points_.size(); ++p) {
    const Problem other = space.problem(split_costs(points_[p].costs, options));
    ir::internal_check(
        other.variables.size() == problem.variables.size() && other.edges.size() == problem.edges.size(),
        "problems of one space differ");
    for (const VariableId v : other.variables.ids())
      add_steps(problem.variables[v].edit(), other.variables[v].costs(), points_[p].steps);
    for (const solver::EdgeId e : other.edges.ids())
      add_steps(problem.edges[e].costs.edit(), other.edges[e].costs.costs(), points_[p].steps);
  }
}

Problem PricePoints::problem(const SplitSpace& space, const SplitCostOptions& options) const {
  Problem problem = space.problem(split_costs(points_[0].costs, options));
  add_others(problem, space, options);
  return problem;
}

std::vector<analysis::Time> PricePoints::prices(const SplitSpace& space, const Assignment& choice) const {
  std::vector<analysis::Time> times;
  for (const PricePoint& point : points_)
    times.push_back(analysis::Time{price(space.problem(split_costs(point.costs)), choice)});
  return times;
}

analysis::Time PricePoints::sum(const std::vector<analysis::Time>& steps) const {
  analysis::Time sum;
  for (std::size_t p = 0; p < steps.size(); ++p) sum.ps += steps[p].ps * points_[p].steps;
  return sum;
}

}  // namespace braid::split
