// Plans of several programs with the same weights (shared_tensors.h), chosen together: one layout of the
// weights, and of the caches that go from one program to another, that makes the weighted sum of their steps
// least. The states of everything else are each program's own.
//
// They are one problem of the solver: those of all programs side by side, and a variable per shared weight
// that ties its readers to one state. If it is too wide to be solved exactly, the layout of the weights in
// each program's own best plan is tried for all programs, and the bound is at least the sum of the bounds of
// each program alone.
#pragma once

#include <span>

#include "solver/problem.h"
#include "split/candidates.h"
#include "split/shared_tensors.h"

namespace braid::split {

// Returns plans of the first program; FoundPlan::with has those of the others. The order of programs does not
// change the plans. Returns none on meshes with too many choices for a search of all axes at once, or if the
// limits of memory leave none. `effort` is for the problem of all programs.
FoundPlans find_plans_together(std::span<const PlannedProgram> programs, const SharedTensors& shared,
                               const Mesh& mesh, const solver::SolveOptions& effort = {});

}  // namespace braid::split
