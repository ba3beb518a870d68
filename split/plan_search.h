// The search for plans on one mesh: the cheapest plans of all programs under each assumption about hidden
// communication (plan_chooser.h), what they are, and bounds of all plans.
#pragma once

#include <memory>
#include <span>

#include "solver/problem.h"
#include "split/candidates.h"

namespace braid::split {

struct KnownWork;

// The work of each program, known once for all meshes.
using KnownWorks = std::vector<std::shared_ptr<const KnownWork>>;
KnownWorks known_works(std::span<const PlannedProgram> programs);

// Returns plans of the first program; FoundPlan::with has those of the others. The order of programs does not
// change the plans. Returns none on meshes with too many choices for a search of all axes at once if there
// are several points or programs, or if the limits of memory leave none. `known` are bounds of all programs
// together. `effort` is for the problem of several programs.
FoundPlans find_plans_on(const Mesh& mesh, std::span<const PlannedProgram> programs,
                         const SharedTensors& shared, const KnownWorks& works, const KnownBounds& known = {},
                         const solver::SolveOptions& effort = {});

}  // namespace braid::split
