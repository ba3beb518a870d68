// Normalisations without parameters: by a norm along an axis, and by the channels around an element.
#include <algorithm>

#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::ReduceKind;

// x / norm; where the norm is 0, so is x, and the result is 0.
void lower_lp_normalization(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::int64_t p = c.int_attribute("p", 2);
  if (p != 1 && p != 2)
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'p' is {}, expected 1 or 2", p));
  const int axis = c.axis_attribute(c.rank(0), -1);
  const TensorBox x = l.cast(c.input(0), compute_type(c.dtype(0)));
  l.mark_reuse(x, 2);
  const TensorBox powers = p == 1 ? unary(l, OpCode::abs, x) : binary(l, OpCode::mul, x, x);
  TensorBox norm = l.reduce(powers, ReduceKind::sum, {axis}, true);
  if (p == 2) norm = unary(l, OpCode::sqrt, norm);
  const TensorBox y = l.pointwise({x, norm}, [](BodyBuilder& b, std::span<const ValueId> v) {
    const ValueId zero = b.constant_of(b.dtype(v[0]), 0);
    return b.where(b.binary(OpCode::eq, v[1], zero), zero, b.binary(OpCode::div, v[0], v[1]));
  });
  c.set_output(0, l.cast(y, c.dtype(0)));
}

// x / (bias + alpha / size * sum of squares)^beta, the sum over `size` channels around the element's.
void lower_lrn(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::int64_t size = c.int_attribute("size");
  if (size < 1)
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'size' is {}, expected at least 1", size));
  if (c.rank(0) < 2)
    c.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected [N, C, ...]", c.rank(0)));
  const double alpha = c.float_attribute("alpha", 1e-4f), beta = c.float_attribute("beta", 0.75f),
               bias = c.float_attribute("bias", 1);
  const DType compute = compute_type(c.dtype(0));
  const TensorBox x = l.cast(c.input(0), compute);
  l.mark_reuse(x, 2);
  const Expr channels = x.sizes()[1];
  const std::int64_t farthest = std::max<std::int64_t>(ir::bounds(channels).max - 1, 0);
  const std::int64_t before = std::min((size - 1) / 2, farthest), after = std::min(size / 2, farthest);
  std::vector<Expr> window = x.sizes();
  window.push_back(before + after + 1);
  const TensorBox squares = l.generate(window, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source(at.begin(), at.end() - 1);
    source[1] = at[1] + at.back() - before;
    const ValueId channel = b.index(source[1]);
    const ValueId inside =
        b.binary(OpCode::logical_and, b.binary(OpCode::ge, channel, b.constant(DType::i64, std::int64_t{0})),
                 b.binary(OpCode::lt, channel, b.index(channels)));
    const ValueId value = l.load(b, x, source, inside);
    return b.binary(OpCode::mul, value, value);
  });
  const TensorBox sum = l.reduce(squares, ReduceKind::sum, {c.rank(0)}, false);
  const TensorBox y = l.pointwise({x, sum}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const auto number = [&](double value) { return b.constant_of(compute, value); };
    const ValueId base = b.binary(OpCode::add, number(bias),
                                  b.binary(OpCode::mul, number(alpha / static_cast<double>(size)), v[1]));
    return b.binary(OpCode::div, v[0], b.binary(OpCode::pow, base, number(beta)));
  });
  c.set_output(0, l.cast(y, c.dtype(0)));
}

}  // namespace

std::span<const OpSpec> local_normalization_ops() {
  static const OpSpec ops[] = {
      {"", "LRN", 1, kNewestOpset, kFloats, lower_lrn, work::channel_window(), rule::kLocalResponse, kNoState,
       kNoSizes},
      {"", "LpNormalization", 1, kNewestOpset, kFloats, lower_lp_normalization, work::reduction(24, 2),
       rule::kLpNormalization, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
