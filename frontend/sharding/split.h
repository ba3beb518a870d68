// Splitting a plain model over ranks while it is imported: between shape inference and lowering.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "frontend/sharding/apply.h"

namespace braid::frontend::sharding {

struct SplitRequest {
  // The text of a complete plan (plan.h); if it is empty, `choose` makes one. Without both everything is replicated.
  std::string plan;
  std::string plan_file;  // for messages
  std::function<Plan(const Graph& graph, int ranks)> choose;
  // Is told the plan that was applied, and the states of the program's inputs and outputs that are not whole.
  std::function<void(const Graph& graph, const Plan& plan, const Interface& inputs, const Interface& outputs)>
      report;
  // Is told the plan as it was held to the rules of the plain model's graph.
  std::function<void(const Model& plain, const Graph& graph, const ResolvedPlan& plan)> resolved;
};

// UserError kCannotSplit if the model communicates by itself or has weights that differ between ranks.
void require_plain(const Model& model, const Opsets& opsets);

// The local model. `facts` are those of `model`, which is plain. UserErrors of parse_plan and resolve.
Model split_model(const Model& model, const Opsets& opsets, const GraphFacts& facts, int ranks,
                  const SplitRequest& request);

}  // namespace braid::frontend::sharding
