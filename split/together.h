// Plans of several programs with the same weights (shared_tensors.h), chosen together: the weighted sum of their steps is the least that one
// layout of the weights, and of the caches that go from one to another, allows. The states of everything else are each program's own.
//
// It is one problem of the solver: those of all programs beside each other, and a variable per shared weight that ties its readers to one
// state. Where it is too wide to be solved exactly, the weights' layout of each program's own best plan is tried for all as well, and the
// bound is no less than the sum of what each takes alone.
#pragma once

#include <memory>
#include <span>

#include "solver/problem.h"
#include "split/candidates.h"
#include "split/shared_tensors.h"

namespace braid::split {

struct PlannedProgram {
  const Graph* graph = nullptr;
  std::shared_ptr<const analysis::CostModel> costs;
  SearchOptions
      options;  // `steps` is its weight, and that of each of `points`; annotations and explanations count for nothing
};

// Plans of the first program; FoundPlan::with are those of the others. The same programs in another order have the same plans. None on
// meshes with too many choices for a search of all axes at once, or if the limits of memory leave none. UserErrors of find_plans.
// `effort`: for the problem of all programs.
FoundPlans find_plans_together(std::span<const PlannedProgram> programs, const SharedTensors& shared,
                               const Mesh& mesh, const solver::SolveOptions& effort = {});

}  // namespace braid::split
