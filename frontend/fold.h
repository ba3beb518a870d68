// Constant folding.
#pragma once

#include "frontend/op_context.h"
#include "frontend/op_registry.h"

namespace braid::frontend {

// Computes the node while compiling where all its inputs are constants, the same on all ranks, and inputs and
// outputs are small; its outputs are then set as constants. Weights are never folded: what is done to them is
// a view, or cheap beside the memory that a second copy would take.
bool fold_constants(OpContext& context, const OpSpec& spec);

}  // namespace braid::frontend
