// What the machine's cost model says about the nodes and conversions of a model that is being split, before it is lowered: the
// search over plans (split/space.h) needs a figure for every state of every node, so these are rooflines at local
// sizes, without lowering. The candidates that it yields are compiled and simulated afterwards (driver/split.h).
#pragma once

#include <memory>

#include "analysis/costs/cost_model.h"
#include "split/space.h"

namespace braid::split {

struct SplitCostOptions {
  // Collectives cost this many thousandths: less prefers plans whose communication can be hidden.
  int communication = 1000;
  // Products with constants cost this much more if they are not split: what --tp obeys.
  Cost whole_product = 0;
  // Thousandths of the machine's memory bandwidth.
  int memory = 1000;
};

// SplitCostOptions::whole_product, beyond any time that conversions take, for steps of which the sum counts: less where there are many, so
// that sums can be counted.
Cost whole_product(std::int64_t steps);

// What the nodes of a graph compute and move, at the sizes of a cost model: the same for all options.
struct KnownWork;
std::shared_ptr<const KnownWork> known_work(const Graph& graph, const analysis::CostModel& costs);

// Kernels: products, convolutions and attention by their flops and bytes, reductions by their bytes, each with a launch. What is
// fused into them (elementwise operators) costs the traffic of its result, and views nothing. `known` is of the graph and the cost
// model; without it, what nodes do is computed each time.
SplitCosts split_costs(std::shared_ptr<const analysis::CostModel> costs, const SplitCostOptions& options = {},
                       std::shared_ptr<const KnownWork> known = nullptr);

// A step of a conversion on the machine, alone; free if nothing moves between ranks.
analysis::CollectiveCost collective_cost(const analysis::CostModel& costs, const ConversionStep& step,
                                         int ranks, bool symmetric,
                                         ir::Algorithm algorithm = ir::Algorithm::unasked);
bool moves_between_ranks(StepKind kind);
// The same costs, with those of steps kept: equal layers ask for the same ones again and again.
SplitCosts with_memory(SplitCosts costs);
// Into how many parts a combination cuts an input, an output, or the work of a node.
int parts_of_input(Combination axes, const Mesh& mesh, std::size_t k);
int parts_of_output(Combination axes, const Mesh& mesh, std::size_t k);
int parts_of_work(Combination axes, const Mesh& mesh);
// Bytes of each of so many parts of a value.
double local_bytes(const GraphValue& value, const SplitCosts& sizes, int parts);

}  // namespace braid::split
