// Choice on meshes whose axes have too many choices together (split_space.h).
#include <algorithm>

#include "ir/error.h"
#include "split/choose_split.h"

namespace braid::split {

SplitChoice choose_split(const SplitSpace& space, const SplitCosts& costs, const SolveOptions& options) {
  return space.described(costs, solved_split(space, costs, options));
}

SpaceSolution solved_split(const SplitSpace& space, const SplitCosts& costs, const SolveOptions& options) {
  return space.large() ? solved_in_turn(space, costs, options) : space.solved(costs, options);
}

SpaceSolution solved_in_turn(const SplitSpace& space, const SplitCosts& costs, SolveOptions options,
                             Assignment from, const RestrictPart& restrict) {
  // Each is one of many solutions, and their bounds are not used.
  constexpr std::int64_t kMostCells = std::int64_t{1} << 25;
  options.budget = std::min(options.budget, kMostCells);
  // The combinations found so far, as a choice of the whole space; empty: everything is whole.
  Assignment known = std::move(from);
  Solution best;
  constexpr int kMostRounds = 4;
  std::vector<Assignment> way;
  bool proved = true;
  // By axis: `known` when the axis was searched last. With the same `known` the search would find the same
  // again.
  std::vector<Assignment> chosen_at(space.mesh().axes.size());
  for (int round = 0; round < kMostRounds; ++round) {
    const Cost before = round == 0 ? kForbidden : best.cost;
    for (int axis = space.mesh().size(); axis-- > 0;) {
      Assignment& last = chosen_at[axis];
      if (!known.empty() && last == known) continue;
      const SplitSpace one(space, axis, known);
      ir::internal_check(!one.large(), "one axis of {} has too many choices", to_string(space.mesh()));
      Solution next = one.solved(costs, options,
                                 restrict ? [&](Problem& problem) { restrict(one, problem); }
                                          : std::function<void(Problem&)>())
                          .solution;
      if (!next.feasible()) {  // what is known keeps the restrictions
        proved = false;
        last = known;
        continue;
      }
      Assignment choice = space.choice_of(one, next.choice);
      proved = proved && next.status == Status::kOptimal;
      way.push_back(choice);
      if (best.choice.empty() || next.cost <= best.cost) {
        best = std::move(next);
        known = std::move(choice);
      } else {
        way.emplace_back();
      }
      last = known;
    }
    if (best.cost >= before) break;
  }
  best.choice = std::move(known);
  best.bound = 0;
  best.status = Status::kFeasible;
  return {std::move(best), false, proved ? std::move(way) : std::vector<Assignment>()};
}

}  // namespace braid::split
