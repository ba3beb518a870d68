// Lines that every plan of a search must have: those of annotations (annotations.h).
#pragma once

#include "frontend/sharding/choose.h"
#include "frontend/sharding/plan.h"

namespace braid::frontend::sharding {

// Options of a space on the plan's mesh whose plans have these lines: states in which values are computed and nodes take them.
// `blocks` are those that the lines ask for. `graph` must outlive the options. UserError kPlanMismatch if a line names nothing of
// the graph.
SpaceOptions with_lines(const Graph& graph, const MeshPlan& lines, BlockCandidates blocks, Caches caches);
// UserError kPlanMismatch if the lines leave a node of the space no combination of its rule.
void require_kept(const Graph& graph, const SplitSpace& space);
// UserError kPlanMismatch if a conversion that they need does not exist.
void require_kept(const Solution& solution);

}  // namespace braid::frontend::sharding
