// Heads, rotary embedding and caches of ONNX Runtime's attention operators.
#pragma once

#include <functional>

#include "frontend/ops/common.h"

namespace braid::frontend {

// Returns [batch, sequence, heads * size] as [batch, heads, sequence, size]. Throws kShapeMismatch if the
// heads do not divide.
TensorBox split_heads(OpContext& c, const TensorBox& x, std::int64_t heads);
// The inverse.
TensorBox join_heads(OpContext& c, const TensorBox& x);

// [rows of a cache, rotated / 2] each, and which row belongs to a position of the sequence.
struct Rotation {
  TensorBox cos, sin;
  bool interleaved =
      false;  // a pair is two neighbours; otherwise an element of the first and one of the second half
  // The row, in i64; checked against the size of the cache.
  std::function<ValueId(BodyBuilder&, const Expr& batch, const Expr& position)> row;
};

// Rotates the first elements of every head of [batch, heads, sequence, size], as many as twice the columns of
// the cache; those after them stay as they are. Half types are computed in f32.
TensorBox rotated(OpContext& c, const TensorBox& x, const Rotation& rotation);

// Returns the cache after every row of the batch has written new elements into it, at a position of its own.
//
// `begin` gives a row's position in i64. The step fails if the new elements [.., batch, heads, count, size]
// end after `capacity`. A cache that keeps its capacity keeps all other elements. One that grows keeps those
// before the new ones, and elements that were not written become 0. The result has memory, in the layout of
// `past` if that has room (ir/capacity.h).
TensorBox write_cache(OpContext& c, const TensorBox& past, const TensorBox& fresh, const Expr& capacity,
                      const std::function<ValueId(BodyBuilder&, const Expr& batch)>& begin);

// The position of input k, one integer for all rows of the batch, in i64: [] or [1].
ValueId only_element(OpContext& c, BodyBuilder& b, int k);

// A number that has an attribute and must be positive.
std::int64_t positive_attribute(OpContext& c, const char* name);

// Attribute `scale`, of which 0 is the default: 1 / sqrt(head size).
double score_scale(OpContext& c, const Expr& head_size);

}  // namespace braid::frontend
