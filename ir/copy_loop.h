// A loop that copies one tensor into another of the same sizes, whatever their strides.
#pragma once

#include "ir/graph.h"

namespace braid::ir {

// Without outputs: the caller says which buffer it defines.
Operation copy_loop(const Graph& graph, const TensorRef& from, const TensorRef& to);
Operation copy_loop(const Graph& graph, BufferId from, BufferId to);

}  // namespace braid::ir
