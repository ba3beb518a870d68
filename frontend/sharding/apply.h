// Makes the model of one rank from a plain model and a plan: nodes at local sizes, collectives between them,
// weights cut.
//
// A mesh is applied one axis after another (split.h). The model that is split along the first axis is a model
// like any other, whose collectives have rules (rules/collectives.cc), and is split again.
#pragma once

#include <map>
#include <string>

#include "frontend/load.h"
#include "frontend/sharding/convert.h"
#include "frontend/sharding/rules.h"
#include "frontend/sharding/split_names.h"
#include "split/parts.h"
#include "split/plan.h"

namespace braid::frontend::sharding {

// The plan as states of every node: of each input as it takes it, and of each output.
struct NodeStates {
  Strategy strategy;
  Letter letter;  // if strategy.letter is valid
};
struct ResolvedPlan {
  IdVector<NodeId, NodeStates> nodes;  // nodes that are computed at compile time have none
  IdVector<ValueId, Spec> produced;
  std::vector<Spec> outputs;  // by graph output: as the program returns it
};

// Checks the plan against the rules. Throws UserError kPlanMismatch with line and tensor: an unknown value or
// reader, a state that does not fit the value's sizes, states that no rule of the node allows, a conversion
// that does not exist, another number of ranks.
ResolvedPlan resolve(const Graph& graph, const Plan& plan, int ranks, const std::string& file);

// The result of writing a node.
struct Emitted {
  std::vector<std::string> inputs;  // their names as it takes them; "": absent
  int begin = 0, end = 0;           // its nodes in the local model, without conversions
};
struct LocalProgram {
  Model model;
  Interface inputs, outputs;
  IdVector<ValueId, std::string> names;  // as they are produced
  IdVector<NodeId, Emitted> nodes;
};
// `plain` may be the model of each of `before` ranks (LocalModel).
LocalProgram apply(const Model& plain, const Graph& graph, const ResolvedPlan& plan, int ranks,
                   int before = 1, Weights weights = Weights::cut);

}  // namespace braid::frontend::sharding
