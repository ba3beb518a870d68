#include "frontend/ops/matmul.h"

#include "frontend/ops/packed_weights.h"
#include "ir/error_numbers.h"

namespace braid::frontend {

void check_product(OpContext& c, Expr a, Expr b) {
  if (a.is_constant() && b.is_constant() && !(a == b)) {
    c.fail(errors::kShapeMismatch,
           fmt::format("the inner sizes {} and {} differ", to_string(a), to_string(b)),
           "the first operand must have as many columns as the second has rows");
  }
}

TensorBox scaled_by(ir::Lowering& l, const TensorBox& x, float factor) {
  if (factor == 1) return x;
  // Integers are scaled in f64, so that a fractional factor acts before rounding.
  const DType dtype = x.dtype(), compute = is_float(dtype) ? dtype : DType::f64;
  return l.pointwise({x}, [&](BodyBuilder& body, std::span<const ValueId> v) {
    return body.cast(body.binary(OpCode::mul, body.cast(v[0], compute), body.constant_of(compute, factor)),
                     dtype);
  });
}

TensorBox gemm(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) != 2 || c.rank(1) != 2) c.fail(errors::kShapeMismatch, "operands must be matrices");
  const auto operand = [&](int k, const char* transposed) {
    return c.int_attribute(transposed, 0) != 0 ? l.permute(c.input(k), {1, 0}) : c.input(k);
  };
  const TensorBox a = operand(0, "transA"), b = operand(1, "transB");
  check_product(c, a.sizes()[1], b.sizes()[0]);
  const float beta = c.float_attribute("beta", 1);
  const auto packed = packed_product(c, a, c.int_attribute("transB", 0) != 0);
  const TensorBox y = scaled_by(l, packed ? *packed : l.matmul(a, b), c.float_attribute("alpha", 1));
  return c.has_input(2) && beta != 0 ? binary(l, OpCode::add, y, scaled_by(l, c.input(2), beta)) : y;
}

namespace {

void lower_matmul(OpContext& c) {
  const int a = c.rank(0), b = c.rank(1);
  if (a == 0 || b == 0) c.fail(errors::kShapeMismatch, "an operand is a scalar");
  check_product(c, c.sizes(0)[static_cast<std::size_t>(a - 1)],
                c.sizes(1)[static_cast<std::size_t>(b == 1 ? 0 : b - 2)]);
  const auto packed = packed_product(c, c.input(0), false);
  c.set_output(0, packed ? *packed : c.lowering().matmul(c.input(0), c.input(1)));
}

void lower_gemm(OpContext& c) { c.set_output(0, gemm(c)); }

}  // namespace

std::span<const OpSpec> matmul_ops() {
  static const OpSpec ops[] = {
      {"", "Gemm", 1, kNewestOpset, kNumbers, lower_gemm, work::matrix_product(0, 1), rule::kGemm, kNoState,
       kNoSizes},
      {"", "MatMul", 1, kNewestOpset, kNumbers, lower_matmul, work::matrix_product(0, 1), rule::kMatMul,
       kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
