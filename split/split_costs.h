// The costs of nodes and conversions with which plans are compared.
#pragma once

#include <functional>
#include <span>

#include "solver/problem.h"
#include "split/conversion_steps.h"
#include "split/factors.h"
#include "split/graph.h"

namespace braid::split {

using solver::Cost;
using solver::CostTable;
using solver::Edge;
using solver::kForbidden;
using solver::kLargestTotal;
using solver::Problem;
using solver::RowRange;
using solver::Solution;
using solver::SolveOptions;
using solver::Status;
using solver::Usage;

using WorkId = ir::Id<struct WorkTag>;  // nodes of equal work

// One combination of a node per axis.
using Combination = std::span<const Strategy* const>;

// Costs in whole picoseconds, at least 0, from a model of the machine.
struct SplitCosts {
  // The cost of a node on each rank with that combination, on one axis.
  std::function<Cost(const Graph& graph, const GraphNode& node, const Strategy& strategy, int ranks)> node;
  // The same on several axes; required only for meshes with more than one.
  std::function<Cost(const Graph& graph, const GraphNode& node, Combination axes, const Mesh& mesh)>
      node_on_mesh;
  // The same in two steps, for callers that price many combinations of one node; may be empty. Nodes with
  // equal combinations and equal keys cost the same.
  std::function<WorkId(const Graph& graph, const GraphNode& node)> key;
  std::function<Cost(WorkId key, Combination axes, const Mesh& mesh)> of_key;
  StepCost step;
  // The size that an expression counts with, such as its upper bound.
  std::function<std::int64_t(const ir::Expr& size)> size;
};

// Returns the cost of a node, including the collectives inside its local form.
Cost cost_of(const Graph& graph, const GraphNode& node, Combination axes, const Mesh& mesh,
             const SplitCosts& costs);

}  // namespace braid::split
