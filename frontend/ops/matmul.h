// Matrix products, as MatMul, Gemm and the operators that are fused with more compute them.
#pragma once

#include "frontend/ops/common.h"

namespace braid::frontend {

// kShapeMismatch if the inner sizes are numbers that differ.
void check_product(OpContext& c, Expr a, Expr b);

// factor * x
TensorBox scaled_by(ir::Lowering& l, const TensorBox& x, float factor);

// alpha * A' * B' + beta * C of inputs 0 to 2 and Gemm's attributes.
TensorBox gemm(OpContext& c);

}  // namespace braid::frontend
