// Convolutions and pools as loops, for targets and types without a kernel for them: right, not fast.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace braid::codegen {

bool is_window_kernel(const ir::Kernel& kernel);

// Makes loops of the operation and returns the operations that take its place, in order. A convolution must
// have no epilogue and store its sums as they are. Loops that need the result of others get memory of their
// own for it.
std::vector<ir::OpId> window_loops(ir::Graph& graph, ir::OpId id);

}  // namespace braid::codegen
