// Lines that every plan of a search must have.
#pragma once

#include <functional>

#include "split/plan.h"
#include "split/split_space.h"

namespace braid::split {

struct FixedLines {
  MeshPlan plan;
  BlockCandidates blocks;  // the blocks that the lines ask for
};

// Lines that the model itself has: ONNX's annotations (frontend/sharding/annotations.h).
struct Annotations {
  Mesh mesh;  // the mesh that the lines refer to
  // The lines on a mesh of as many ranks; UserErrors.
  std::function<FixedLines(const Graph& graph, const Mesh& mesh)> lines;
};

// Returns options of a space on the plan's mesh whose plans have these lines: states in which values are
// computed and nodes take them. `blocks` are those that the lines ask for. `graph` must outlive the options.
// Throws UserError kPlanMismatch if a line names nothing of the graph.
SpaceOptions with_lines(const Graph& graph, const MeshPlan& lines, BlockCandidates blocks, Caches caches);
// Throws UserError kPlanMismatch if the lines leave a node of the space no combination of its rule.
void require_kept(const Graph& graph, const SplitSpace& space);
// Throws UserError kPlanMismatch if a conversion that the lines need does not exist.
void require_kept(const Solution& solution);

}  // namespace braid::split
