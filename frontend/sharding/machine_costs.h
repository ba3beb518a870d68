// What the machine's cost model says about the nodes and conversions of a model that is being split, before it is lowered: the
// search over plans (frontend/sharding/choose.h) needs a figure for every state of every node, so these are rooflines at local
// sizes, without lowering. The candidates that it yields are compiled and simulated afterwards (driver/split.h).
#pragma once

#include <memory>

#include "analysis/costs/cost_model.h"
#include "frontend/sharding/choose.h"

namespace braid::frontend::sharding {

struct SplitCostOptions {
  // Collectives cost this many thousandths: less prefers plans whose communication can be hidden.
  int communication = 1000;
  // Products with constants cost this much more if they are not split: what --tp obeys.
  Cost whole_product = 0;
};

// Kernels: products, convolutions and attention by their flops and bytes, reductions by their bytes, each with a launch. What is
// fused into them (elementwise operators) costs the traffic of its result, and views nothing.
SplitCosts split_costs(std::shared_ptr<const analysis::CostModel> costs,
                       const SplitCostOptions& options = {});

// Which load of a device a lower bound counts.
enum class Load { flops, weights };

// Costs that no execution is below: of products, only their flops (or only the time to read their constants), at the peaks that
// the cost model grants them; of collectives their floors. Everything else is free. The two are weighted: `node` of 16 parts
// for nodes, the rest for collectives; the sum is then divided by 16 (bound_over_plans).
SplitCosts floor_costs(std::shared_ptr<const analysis::CostModel> costs, Load load, int node);

// No plan of the space on so many ranks, in whatever order, with whatever merging, fusion and overlap, is faster. From the
// loads: products run one after another on each rank, collectives share a fabric, so the longer of the two is a bound, and so
// is every weighted mean; the minimum over plans of the mean is what the solver computes, the maximum over weights is kept.
// Scope: this table of rules, this machine, one mesh axis, at most two converted forms of a tensor.
analysis::Time bound_over_plans(const SplitSpace& space, std::shared_ptr<const analysis::CostModel> costs,
                                const SolveOptions& options = {});

}  // namespace braid::frontend::sharding
