// The work of a node, flops and bytes, from its operator and its sizes (graph.h), for costs, bounds and
// memory before anything is lowered.
#pragma once

#include <utility>
#include <vector>

#include "ir/kernel_class.h"
#include "split/split_space.h"

namespace braid::split {

// Whether it multiplies with weights.
bool has_weights(const Graph& graph, const GraphNode& node);
// Returns a value of the list; nullptr if it is absent.
const GraphValue* value_of(const Graph& graph, const std::vector<ValueId>& list, int k);

// For the whole value or node, at the sizes that `sizes` counts with.
double elements(const GraphValue& value, const SplitCosts& sizes);
double flops(const Graph& graph, const GraphNode& node, const SplitCosts& sizes);
// Returns the flops of a matrix product that is a kernel of exactly that many in every program; 0 for others.
double exact_flops(const Graph& graph, const GraphNode& node, const SplitCosts& sizes);

// The work of a whole node. Operators that are fused into other kernels are priced without reads of their own
// (machine_costs.h).
struct NodeWork {
  WorkKind kind = WorkKind::view;
  bool free = true;    // costs nothing
  bool asked = false;  // whether it is a product with weights
  ir::DType dtype = ir::DType::f32;
  double flops = 0;
  std::vector<std::pair<int, double>> reads, writes;  // bytes by input and output
  double passed_on = 0;                               // bytes between its kernels
  double tables = 0;                                  // bytes that every rank reads whole
};
NodeWork work_of(const Graph& graph, const GraphNode& node, const SplitCosts& sizes);

}  // namespace braid::split
