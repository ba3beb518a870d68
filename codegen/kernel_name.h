// Names of kernels by what they do: "add_layer_norm", "gather", "le_div_where_softmax".
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace braid::codegen {

// Returns the operations of a fused node's loops in their order, each once. Softmax and the normalisations
// have their own names, at which the kernel's name ends. "copy" if the loops only move data. Meant for
// readers and not unique.
std::string kernel_name(const ir::Graph& graph, const std::vector<ir::OpId>& ops);

}  // namespace braid::codegen
