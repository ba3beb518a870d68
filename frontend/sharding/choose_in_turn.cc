// The choice on meshes whose axes are too many choices together (choose.h).
#include <algorithm>

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
  // What each axis has so far, as a choice of the whole space; empty: everything is whole.
  std::vector<int> known;
  const auto with_axis = [&](int open) {
    const SplitSpace one(space, open, known);
    ir::internal_check(!one.large(), "one axis of {} has too many choices", to_string(space.mesh()));
    SplitChoice choice = one.choose(costs, options);
    choice.solution.choice = space.choice_of(one, choice.solution.choice);
    return choice;
  };
  constexpr int kMostRounds = 4;
  SplitChoice best;
  std::vector<std::vector<int>> way;
  bool proved = true;
  // By axis: what was known when it had been chosen last. As long as that stays, the same would be chosen again.
  std::vector<std::vector<int>> chosen_at(space.mesh().axes.size());
  for (int round = 0; round < kMostRounds; ++round) {
    const Cost before = round == 0 ? kForbidden : best.solution.cost;
    for (int axis = space.mesh().size(); axis-- > 0;) {
      std::vector<int>& last = chosen_at[static_cast<std::size_t>(axis)];
      if (!known.empty() && last == known) continue;
      SplitChoice next = with_axis(axis);
      proved = proved && !next.way.empty();
      way.push_back(next.solution.choice);
      if (known.empty() || next.solution.cost <= best.solution.cost) {
        best = std::move(next);
        known = best.solution.choice;
      } else {
        way.emplace_back();
      }
      last = known;
    }
    if (best.solution.cost >= before) break;
  }
  best.joint = false;
  best.way = proved ? std::move(way) : std::vector<std::vector<int>>();
  best.solution.bound = 0;
  best.solution.status = Status::kFeasible;
  return best;
}

}  // namespace braid::frontend::sharding
