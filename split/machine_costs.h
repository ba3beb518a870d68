// The costs of nodes and conversions on a machine, for a model that is being split and is not lowered yet.
// The search over plans (split_space.h) needs a figure for every state of every node, so these are rooflines
// at local sizes, without lowering. The candidates that the search yields are compiled and simulated
// afterwards (driver/split.h).
#pragma once

#include <memory>

#include "analysis/costs/cost_model.h"
#include "split/split_space.h"

namespace braid::split {

struct SplitCostOptions {
  // Thousandths of their time that collectives cost: less prefers plans whose communication can be hidden.
  int communication = 1000;
  // The additional cost of a product with constants, for each axis that does not split it. --tp is obeyed by
  // this.
  Cost whole_product = 0;
  // Thousandths of the machine's memory bandwidth.
  int memory = 1000;
};

// Returns SplitCostOptions::whole_product for that many steps whose costs are added: more than any time that
// conversions take, but less where steps are many, so that sums can be counted.
Cost whole_product(std::int64_t steps);

// The work of the nodes of a graph at the sizes of a cost model, which is the same for all options.
struct KnownWork;
std::shared_ptr<const KnownWork> known_work(const Graph& graph, const analysis::CostModel& costs);

// Returns costs of kernels with a launch each: products, convolutions and attention by their flops and bytes,
// reductions by their bytes. Operators that are fused into other kernels (elementwise) cost the traffic of
// their results, and views nothing. `known` is of the graph and the cost model; without it, the work of nodes
// is computed each time.
SplitCosts split_costs(std::shared_ptr<const analysis::CostModel> costs, const SplitCostOptions& options = {},
                       std::shared_ptr<const KnownWork> known = nullptr);

// Returns the cost of a step, alone on the machine. Requires a step that moves data between ranks.
analysis::CollectiveCost collective_cost(const analysis::CostModel& costs, const ConversionStep& step,
                                         int ranks, bool symmetric,
                                         ir::Algorithm algorithm = ir::Algorithm::unasked);
bool moves_between_ranks(StepKind kind);
// Returns the same costs, with the costs of steps cached, because equal layers ask for the same ones again
// and again.
SplitCosts with_memory(SplitCosts costs);
// The number of parts into which a combination cuts an input, an output, or the work of a node.
int parts_of_input(Combination axes, const Mesh& mesh, int k);
int parts_of_output(Combination axes, const Mesh& mesh, int k);
int parts_of_work(Combination axes, const Mesh& mesh);
// Returns the bytes of each of `parts` parts of a value.
double local_bytes(const GraphValue& value, const SplitCosts& sizes, int parts);

}  // namespace braid::split
