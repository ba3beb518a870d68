// The choice on meshes whose axes are too many choices together (choose.h).
#include <algorithm>
#include <map>

#include "frontend/sharding/choose.h"
#include "ir/error.h"

namespace braid::frontend::sharding {

SplitChoice choose_split(const SplitSpace& space, const SplitCosts& costs, const SolveOptions& options) {
  return space.large() ? choose_in_turn(space, costs, options) : space.choose(costs, options);
}

SplitChoice choose_in_turn(const SplitSpace& space, const SplitCosts& costs, SolveOptions options) {
  // Each is one of many, and none has a bound that anybody is told.
  constexpr std::int64_t kMostCells = std::int64_t{1} << 25;
  options.budget = std::min(options.budget, kMostCells);
  // By node: what each axis has so far, as a choice that is in every space to come.
  std::map<int, std::vector<Strategy>> fixed;
  const auto same = [](const Strategy& a, const Strategy& b) {
    return a.inputs == b.inputs && a.outputs == b.outputs;
  };
  const auto with_axis = [&](int open) {
    const auto keeps = [&, open](int node, Combination axes) {
      const auto known = fixed.find(node);
      for (std::size_t k = 0; k < axes.size(); ++k) {
        if (static_cast<int>(k) == open) continue;
        const bool keep = known == fixed.end()
                              ? std::all_of(axes[k]->inputs.begin(), axes[k]->inputs.end(),
                                            [](const Spec& s) { return s.is_replicated(); }) &&
                                    std::all_of(axes[k]->outputs.begin(), axes[k]->outputs.end(),
                                                [](const Spec& s) { return s.is_replicated(); })
                              : same(*axes[k], known->second[k]);
        if (!keep) return false;
      }
      return true;
    };
    const SplitSpace one(space, keeps);
    ir::internal_check(!one.large(), "one axis of {} has too many choices", to_string(space.mesh()));
    return one.choose(costs, options);
  };
  constexpr int kMostRounds = 4;
  SplitChoice best;
  for (int round = 0; round < kMostRounds; ++round) {
    const Cost before = round == 0 ? kForbidden : best.solution.cost;
    for (int axis = space.mesh().size(); axis-- > 0;) {
      SplitChoice next = with_axis(axis);
      if (!fixed.empty() && next.solution.cost > best.solution.cost) continue;
      best = std::move(next);
      for (const ChosenNode& node : best.nodes) fixed[node.node] = node.axes;
    }
    if (best.solution.cost >= before) break;
  }
  best.joint = false;
  best.solution.bound = 0;
  best.solution.status = Status::kFeasible;
  return best;
}

}  // namespace braid::frontend::sharding
