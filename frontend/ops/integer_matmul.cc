// MatMulInteger: the product of 8-bit matrices without their zero points, in int32.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// Operand k minus its zero point, if it has one: a scalar, one per row or column, or of the operand's rank.
TensorBox without_zero_point(OpContext& c, int k, bool per_row) {
  ir::Lowering& l = c.lowering();
  const TensorBox x = l.cast(c.input(k), DType::i32);
  if (!c.has_input(2 + k)) return x;
  TensorBox zero = l.cast(c.input(2 + k), DType::i32);
  const bool is_column = per_row && zero.rank() == 1 && x.rank() >= 2 && !zero.sizes()[0].is_constant(1);
  if (is_column) zero = l.unsqueeze(zero, 1);
  if (zero.rank() > x.rank() && !(zero.rank() == 1 && zero.sizes()[0].is_constant(1)))
    c.fail(errors::kShapeMismatch,
           fmt::format("zero point of rank {} for an operand of rank {}", zero.rank(), x.rank()));
  if (zero.rank() > x.rank()) zero = l.squeeze(zero, 0);
  return binary(l, OpCode::sub, x, zero);
}

void lower_matmul_integer(OpContext& c) {
  const int a = c.rank(0), b = c.rank(1);
  if (a == 0 || b == 0) c.fail(errors::kShapeMismatch, "an operand is a scalar");
  const Expr inner = c.sizes(0)[static_cast<std::size_t>(a - 1)],
             other = c.sizes(1)[static_cast<std::size_t>(b == 1 ? 0 : b - 2)];
  if (inner.is_constant() && other.is_constant() && !(inner == other))
    c.fail(errors::kShapeMismatch,
           fmt::format("the inner sizes {} and {} differ", to_string(inner), to_string(other)));
  c.set_output(0, c.lowering().matmul(without_zero_point(c, 0, true), without_zero_point(c, 1, false)));
}

constexpr TypeSet kBytes = {DType::i8, DType::u8};

}  // namespace

std::span<const OpSpec> integer_matmul_ops() {
  static const OpSpec ops[] = {
      {"", "MatMulInteger", 10, kNewestOpset, kBytes, lower_matmul_integer, work::product(0, 1),
       rule::kMatMulInteger, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
