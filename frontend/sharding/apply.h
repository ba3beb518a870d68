// From a plain model and a plan to the model of one rank: nodes at local sizes, collectives between them, weights cut.
#pragma once

#include <map>
#include <string>

#include "frontend/load.h"
#include "frontend/sharding/plan.h"
#include "frontend/sharding/rules.h"

namespace braid::frontend::sharding {

// The plan as states of every node: what each input takes and each output has.
struct NodeStates {
  Strategy strategy;
  Letter letter;  // if strategy.letter >= 0
};
struct ResolvedPlan {
  std::vector<NodeStates> nodes;  // by node of the graph; nodes that are computed at compile time have none
  std::vector<Spec> produced;     // by value
  std::vector<Spec> outputs;      // by graph output: as the program returns it
};

// Why a tensor of these sizes cannot be in that state; empty if it can.
std::string why_not(const GraphValue& value, const Spec& spec, int ranks);
// Adds the blocks that lines of the plan name.
void suggest_blocks(const Graph& graph, const Plan& plan, BlockCandidates& candidates);

// Holds the plan to the rules. UserError kPlanMismatch with line and tensor: an unknown value or reader, a state that does not
// fit the value's sizes, states that no rule of the node allows, a conversion that does not exist, another number of ranks.
ResolvedPlan resolve(const Graph& graph, const Plan& plan, int ranks, const std::string& file);

// The states of the program's inputs and outputs, by name; those that are not replicated.
using Interface = std::map<std::string, Spec>;

struct LocalProgram {
  Model model;
  Interface inputs, outputs;
};
LocalProgram apply(const Model& plain, const Graph& graph, const ResolvedPlan& plan, int ranks);

}  // namespace braid::frontend::sharding
