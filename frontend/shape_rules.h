// Sizes that operators take as values, worked out with expressions. Used by the lowering of tensors and by
// the following of shape values alike.
#pragma once

#include <string>
#include <vector>

#include "ir/expr.h"

namespace braid::frontend {

// Failures of these rules; the caller adds where it happened.
struct ShapeRuleError {
  int code;
  std::string message;
  std::string hint;
};

// Reshape: 0 copies the input's size (unless `allow_zero`), one -1 takes what is left. Throws ShapeRuleError.
std::vector<ir::Expr> reshaped(const std::vector<ir::Expr>& sizes, std::vector<ir::Expr> target,
                               bool allow_zero);

// Elements start + k*step of a dimension, k < count.
struct Range {
  ir::Expr start = 0;
  ir::Expr count = 0;
  std::int64_t step = 1;
};
// Slice: negative positions count from the end, all are clamped. Throws ShapeRuleError where the sign of a
// position that depends on dimensions is not known.
Range sliced(ir::Expr size, ir::Expr start, ir::Expr end, std::int64_t step);

// Number of elements of Range(start, limit, delta).
ir::Expr range_count(ir::Expr start, ir::Expr limit, std::int64_t delta);

// A negative index counts from the end. Throws ShapeRuleError where it lies outside [-size, size) for sure or
// its sign is not known.
ir::Expr wrapped_index(ir::Expr index, ir::Expr size);

}  // namespace braid::frontend
