// Pooling over all positions of an image: reductions that keep the axes.
#include "frontend/ops/statistics.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::ReduceKind;

std::vector<int> image_axes(OpContext& c) {
  if (c.rank(0) < 2)
    c.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected [N, C, ...]", c.rank(0)));
  return axes_from(2, c.rank(0));
}

void lower_average(OpContext& c) {
  ir::Lowering& l = c.lowering();
  c.set_output(0, l.cast(mean(l, l.cast(c.input(0), compute_type(c.dtype(0))), image_axes(c)), c.dtype(0)));
}

void lower_max(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const TensorBox x = l.cast(c.input(0), compute_type(c.dtype(0)));
  c.set_output(0, l.cast(l.reduce(x, ReduceKind::max, image_axes(c), true), c.dtype(0)));
}

// (sum of |x|^p)^(1/p)
void lower_lp(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const double p = c.version() < 2 ? static_cast<double>(c.float_attribute("p", 2))
                                   : static_cast<double>(c.int_attribute("p", 2));
  if (!(p > 0))
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'p' is {}, expected a positive number", p));
  const auto raised = [&](const TensorBox& x, double exponent) {
    return l.pointwise({x}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      if (exponent == 1) return v[0];
      if (exponent == 2) return b.binary(OpCode::mul, v[0], v[0]);
      if (exponent == 0.5) return b.unary(OpCode::sqrt, v[0]);
      return b.binary(OpCode::pow, v[0], b.constant_of(b.dtype(v[0]), exponent));
    });
  };
  const TensorBox x = unary(l, OpCode::abs, l.cast(c.input(0), compute_type(c.dtype(0))));
  const TensorBox sum = l.reduce(raised(x, p), ReduceKind::sum, image_axes(c), true);
  c.set_output(0, l.cast(raised(sum, 1 / p), c.dtype(0)));
}

}  // namespace

std::span<const OpSpec> global_pool_ops() {
  static const OpSpec ops[] = {
      {"", "GlobalAveragePool", 1, kNewestOpset, kFloats, lower_average, work::reduction(1),
       rule::kGlobalPool, kNoState, kNoSizes},
      {"", "GlobalLpPool", 1, kNewestOpset, kFloats, lower_lp, work::reduction(3), rule::kGlobalPool,
       kNoState, kNoSizes},
      {"", "GlobalMaxPool", 1, kNewestOpset, kFloats, lower_max, work::reduction(1), rule::kGlobalPool,
       kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
