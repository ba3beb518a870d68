#include "frontend/ops/statistics.h"

namespace braid::frontend {

TensorBox mean(ir::Lowering& l, TensorBox x, const std::vector<int>& axes) {
  const Expr count = extent(x.sizes(), axes);
  return l.pointwise({l.reduce(x, ir::ReduceKind::sum, axes, true)},
                     [&](BodyBuilder& b, std::span<const ValueId> v) {
                       return b.binary(OpCode::div, v[0], number(b, count, b.dtype(v[0])));
                     });
}

TensorBox inverse_deviation(ir::Lowering& l, TensorBox x, const std::vector<int>& axes, double epsilon) {
  const TensorBox squares = binary(l, OpCode::mul, x, x);
  return l.pointwise({mean(l, squares, axes)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return b.unary(OpCode::rsqrt, b.binary(OpCode::add, v[0], b.constant_of(b.dtype(v[0]), epsilon)));
  });
}

Normalized normalized(ir::Lowering& l, const TensorBox& x, const std::vector<int>& axes, double epsilon) {
  l.mark_reuse(x, 2);
  const TensorBox average = mean(l, x, axes);
  const TensorBox centered = binary(l, OpCode::sub, x, average);
  l.mark_reuse(centered, 2);
  const TensorBox inverse = inverse_deviation(l, centered, axes, epsilon);
  return {average, inverse, binary(l, OpCode::mul, centered, inverse)};
}

DType stash_type(OpContext& c) {
  const DType given = c.dtype_of(c.int_attribute("stash_type", 1));
  // Statistics of doubles in floats would lose precision; ONNX's reference keeps it too.
  return c.dtype(0) == DType::f64 ? DType::f64 : given;
}

}  // namespace braid::frontend
