// Products by constant weights that DequantizeLinear makes from numbers of a few bits: they stay packed
// (runtime/block_product.h).
#pragma once

#include <optional>

#include "frontend/ops/common.h"

namespace braid::frontend {

// Returns a [..., k] times input 1, or its transpose. nullopt unless input 1 is f32 made from 2, 4 or 8 bits
// with scales for blocks along k. For 2 or 4 bits, it may also have a single scale or one per column of the
// product. (Products by 8 bits with a scale per column are integer_products'.)
std::optional<TensorBox> packed_product(OpContext& c, const TensorBox& a, bool transposed);

}  // namespace braid::frontend
