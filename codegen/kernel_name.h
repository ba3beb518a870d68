// Names of kernels by what they do: "add_layer_norm", "gather", "le_div_where_softmax".
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace braid::codegen {

// The operations of a fused node's loops in their order, each once; softmax and the normalisations by their
// names, at which the name ends. "copy" if it only moves data. For readers: not unique.
std::string kernel_name(const ir::Graph& graph, const std::vector<ir::OpId>& ops);

}  // namespace braid::codegen
