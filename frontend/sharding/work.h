// What a node computes, as far as its operator and sizes say it: for costs, bounds and memory before anything is lowered.
#pragma once

#include "frontend/sharding/choose.h"

namespace braid::frontend::sharding {

WorkKind work_kind(const std::string& op);
// Whether it multiplies with weights.
bool has_weights(const Graph& graph, const GraphNode& node);
// A value of the list; nullptr if it is absent.
const GraphValue* value_of(const Graph& graph, const std::vector<int>& list, std::size_t k);

// Of the whole node, with the sizes that `sizes` counts with.
double elements(const GraphValue& value, const SplitCosts& sizes);
double flops(const Graph& graph, const GraphNode& node, WorkKind kind, const SplitCosts& sizes);
// Of a matrix product whose sizes say exactly how much it computes; 0 for others.
double exact_flops(const Graph& graph, const GraphNode& node, const SplitCosts& sizes);

}  // namespace braid::frontend::sharding
