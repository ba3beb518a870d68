// Computes with expressions what operators do to sizes given as values. Used by the lowering of tensors and
// by the propagation of shape values.
#pragma once

#include <string>
#include <vector>

#include "ir/expr.h"

namespace braid::frontend {

// A violation of these rules; the caller adds the location.
struct ShapeRuleError {
  int code;
  std::string message;
  std::string hint;
};

// Reshape: 0 copies the input's size (unless `allow_zero`), one -1 takes the rest. Throws ShapeRuleError.
std::vector<ir::Expr> reshaped(const std::vector<ir::Expr>& sizes, std::vector<ir::Expr> target,
                               bool allow_zero);

// Elements start + k*step of a dimension, k < count.
struct Range {
  ir::Expr start = 0;
  ir::Expr count = 0;
  std::int64_t step = 1;
};
// Slice: negative positions count from the end, all are clamped. Throws ShapeRuleError if the sign of a
// position that depends on dimensions is unknown.
Range sliced(ir::Expr size, ir::Expr start, ir::Expr end, std::int64_t step);

// Number of elements of Range(start, limit, delta).
ir::Expr range_count(ir::Expr start, ir::Expr limit, std::int64_t delta);

// A negative index counts from the end. Throws ShapeRuleError if it provably lies outside [-size, size) or
// its sign is unknown.
ir::Expr wrapped_index(ir::Expr index, ir::Expr size);

}  // namespace braid::frontend
