// The work of a node: flops and bytes, as its operator and its sizes say it (graph.h): for costs, bounds and memory before anything
// is lowered.
#pragma once

#include <utility>
#include <vector>

#include "ir/kernel_class.h"
#include "split/space.h"

namespace braid::split {

// Whether it multiplies with weights.
bool has_weights(const Graph& graph, const GraphNode& node);
// A value of the list; nullptr if it is absent.
const GraphValue* value_of(const Graph& graph, const std::vector<int>& list, int k);

// Of the whole node, with the sizes that `sizes` counts with.
double elements(const GraphValue& value, const SplitCosts& sizes);
double flops(const Graph& graph, const GraphNode& node, const SplitCosts& sizes);
// The flops of a matrix product that is a kernel of exactly so many in every program; 0 for others.
double exact_flops(const Graph& graph, const GraphNode& node, const SplitCosts& sizes);

// The work of a whole node. An operator that is fused into another kernel is priced without reads of its own (machine_costs.h).
struct NodeWork {
  WorkKind kind = WorkKind::view;
  bool free = true;    // costs nothing
  bool asked = false;  // a product with weights
  ir::DType dtype = ir::DType::f32;
  double flops = 0;
  std::vector<std::pair<std::size_t, double>> reads, writes;  // bytes by input and output
  double passed_on = 0;                                       // bytes between its kernels
  double tables = 0;                                          // bytes that every rank reads whole
};
NodeWork work_of(const Graph& graph, const GraphNode& node, const SplitCosts& sizes);

}  // namespace braid::split
