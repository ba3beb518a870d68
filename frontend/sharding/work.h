// What a node computes, as far as its operator and sizes say it: for costs, bounds and memory before anything is lowered.
#pragma once

#include <cstdint>

#include "frontend/sharding/choose.h"

namespace braid::frontend::sharding {

enum class WorkKind : std::uint8_t {
  view,       // of the same memory
  pointwise,  // fused into what it reads or what reads it
  reduction,
  movement,
  product,
  convolution,
  attention
};

WorkKind kind_of(const GraphNode& node);
// Whether it multiplies with weights.
bool has_weights(const Graph& graph, const GraphNode& node);
// A value of the list; nullptr if it is absent.
const GraphValue* value_of(const Graph& graph, const std::vector<int>& list, std::size_t k);

// Of the whole node, with the sizes that `sizes` counts with.
double elements(const GraphValue& value, const SplitCosts& sizes);
double flops(const Graph& graph, const GraphNode& node, WorkKind kind, const SplitCosts& sizes);
// Whether a value consists of elements of constants only, such as a transposed table of embeddings. Programs
// have it in that form, and do nothing for it.
bool is_moved_constant(const Graph& graph, const GraphValue& value);
// Of a matrix product whose sizes say exactly how much it computes; 0 for others.
double exact_flops(const Graph& graph, const GraphNode& node, const SplitCosts& sizes);

}  // namespace braid::frontend::sharding
