// A loop that copies one tensor into another of the same sizes, whatever their strides.
#pragma once

#include "ir/graph.h"

namespace braid::codegen {

// Without outputs: the caller says which buffer it defines.
ir::Operation copy_loop(const ir::Graph& graph, const ir::TensorRef& from, const ir::TensorRef& to);
ir::Operation copy_loop(const ir::Graph& graph, ir::BufferId from, ir::BufferId to);

}  // namespace braid::codegen
