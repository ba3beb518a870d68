// Parameters that are broadcast to the data, which keeps its shape.
#pragma once

#include "frontend/ops/common.h"

namespace braid::frontend {

// Requires that input k can be broadcast to input 0 as ONNX's unidirectional broadcasting defines; adds
// guards where this is not provable. Throws kShapeMismatch if it never can.
void require_broadcast_to_first(OpContext& c, int k);

// Input k, a vector with one entry per channel (axis 1) of input 0, in a shape that is broadcast to input 0.
// kShapeMismatch if it has another shape.
TensorBox per_channel(OpContext& c, int k);

}  // namespace braid::frontend
