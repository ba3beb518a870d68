// Products by constant weights that DequantizeLinear makes of a few bits: they stay packed (runtime/block_product.h).
#pragma once

#include <optional>

#include "frontend/ops/common.h"

namespace braid::frontend {

// a [..., k] times input 1, or its transpose. nullopt if that is no such matrix: f32 of 2 or 4 bits with scales along either
// dimension or in blocks along k, or of 8 bits in blocks. (Products by 8 bits with a scale per column are integer_products'.)
std::optional<TensorBox> packed_product(OpContext& c, const TensorBox& a, bool transposed);

}  // namespace braid::frontend
