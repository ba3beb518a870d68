// The choice of plans for several programs with the same weights (shared_tensors.h): one layout of the
// weights, and of the caches that go from one program to another, that makes the weighted sum of their steps
// least. The states of everything else are each program's own.
//
// They are one problem of the solver: those of all programs side by side, and a variable per shared weight
// that ties its readers to one state. If it is too wide to be solved exactly, the layout of the weights in
// each program's own best plan is tried for all programs, and the bound is at least the sum of the bounds of
// each program alone.
#pragma once

#include <memory>

#include "solver/problem.h"
#include "split/plan_chooser.h"
#include "split/shared_tensors.h"

namespace braid::split {

// `spaces` and `shared` must outlive it. The order of programs does not change the plans. `effort` is for the
// problem of all programs.
std::unique_ptr<PlanChooser> chooser_of_several(const ProgramSpaces& spaces, const SharedTensors& shared,
                                                const solver::SolveOptions& effort);

}  // namespace braid::split
