// Searches for the cheapest choice of a space.
#pragma once

#include <functional>

#include "split/split_space.h"

namespace braid::split {

// Chooses on the space's mesh: over all axes at once or, if the space is large, on one axis after another.
SplitChoice choose_split(const SplitSpace& space, const SplitCosts& costs, const SolveOptions& options = {});
SpaceSolution solved_split(const SplitSpace& space, const SplitCosts& costs,
                           const SolveOptions& options = {});
// Adds limits to the problem of a space that was made of another one.
using RestrictPart = std::function<void(const SplitSpace&, Problem&)>;
// Chooses on one axis after another, beginning with the last, until none becomes cheaper. Gives no bound.
// Starts from `from`, or from whole tensors if that is empty. With `restrict`, `from` must keep the limits;
// it is the solution, with cost kForbidden, if no other choice is found that keeps them.
SpaceSolution solved_in_turn(const SplitSpace& space, const SplitCosts& costs, SolveOptions options = {},
                             Assignment from = {}, const RestrictPart& restrict = nullptr);

}  // namespace braid::split
