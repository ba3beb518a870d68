// Constant folding.
#pragma once

#include "frontend/op_context.h"
#include "frontend/op_registry.h"

namespace braid::frontend {

// Computes the node at compile time if all its inputs are constant, equal on all ranks and small, and its
// outputs are small; these are then set as constants. Weights are never folded: operations on them are views,
// or cheap compared to the memory for a second copy.
bool fold_constants(OpContext& context, const OpSpec& spec);

}  // namespace braid::frontend
