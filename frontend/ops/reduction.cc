// Reductions over axes. Half types accumulate in f32.
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

using ir::ReduceKind;

enum class Before { none, absolute, square, exponential };
enum class After { none, mean, root, logarithm };

// Axes are an attribute in older definitions and input 1 in newer ones. Without axes all are reduced, or none
// if the attribute noop_with_empty_axes is set.
std::vector<int> reduced_axes(OpContext& c) {
  const int rank = c.rank(0);
  std::optional<std::vector<int>> axes = c.axes(1, rank);
  if (axes && !axes->empty()) return *axes;
  if (c.int_attribute("noop_with_empty_axes", 0) != 0) return {};
  return axes_from(0, rank);
}

TensorBox apply(ir::Lowering& l, Before before, TensorBox x) {
  switch (before) {
    case Before::none:
      return x;
    case Before::absolute:
      return unary(l, OpCode::abs, x);
    case Before::square:
      return binary(l, OpCode::mul, x, x);
    case Before::exponential:
      return unary(l, OpCode::exp, x);
  }
  return x;
}

TensorBox apply(ir::Lowering& l, After after, TensorBox x, Expr count) {
  switch (after) {
    case After::none:
      return x;
    case After::mean:
      return l.pointwise({x}, [&](BodyBuilder& b, std::span<const ValueId> v) {
        return b.binary(OpCode::div, v[0], number(b, count, b.dtype(v[0])));
      });
    case After::root:
    case After::logarithm: {
      // For integers: computed in f64 and truncated, as NumPy does.
      const DType dtype = x.dtype(), compute = is_float(dtype) ? dtype : DType::f64;
      return l.cast(unary(l, after == After::root ? OpCode::sqrt : OpCode::log, l.cast(x, compute)), dtype);
    }
  }
  return x;
}

template <ReduceKind kind, Before before = Before::none, After after = After::none>
void lower(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::vector<int> axes = reduced_axes(c);
  const DType dtype = c.dtype(0);
  // bool counts as 0 and 1: its maximum is "or", its minimum "and".
  const DType compute = dtype == DType::boolean ? DType::u8 : compute_type(dtype);
  const TensorBox x = apply(l, before, l.cast(c.input(0), compute));
  const TensorBox y = l.reduce(x, kind, axes, c.int_attribute("keepdims", 1) != 0);
  c.set_output(0, l.cast(apply(l, after, y, extent(c.sizes(0), axes)), dtype));
}

// log(sum(exp(x - max))) + max; an infinite maximum must not be subtracted.
void lower_log_sum_exp(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::vector<int> axes = reduced_axes(c);
  const bool keepdims = c.int_attribute("keepdims", 1) != 0;
  const DType dtype = c.dtype(0), compute = is_float(dtype) ? compute_type(dtype) : DType::f64;
  const TensorBox x = l.cast(c.input(0), compute);
  l.mark_reuse(x, 2);
  const auto finite_maximum = [&](bool keep) {
    return l.pointwise({l.reduce(x, ReduceKind::max, axes, keep)},
                       [](BodyBuilder& b, std::span<const ValueId> v) {
                         return b.where(b.unary(OpCode::is_inf, v[0]), b.constant_of(b.dtype(v[0]), 0), v[0]);
                       });
  };
  const TensorBox exponential = unary(l, OpCode::exp, binary(l, OpCode::sub, x, finite_maximum(true)));
  const TensorBox sum = l.reduce(exponential, ReduceKind::sum, axes, keepdims);
  c.set_output(0,
               l.cast(binary(l, OpCode::add, unary(l, OpCode::log, sum), finite_maximum(keepdims)), dtype));
}

constexpr TypeSet kOrdered = kNumbers | kBool;

}  // namespace

std::span<const OpSpec> reduction_ops() {
  static const OpSpec ops[] = {
      {"", "ReduceL1", 1, kNewestOpset, kNumbers, lower<ReduceKind::sum, Before::absolute>, work::fold(2),
       rule::kSumOfFunction, kNoState, kNoSizes},
      {"", "ReduceL2", 1, kNewestOpset, kNumbers, lower<ReduceKind::sum, Before::square, After::root>,
       work::fold(2), rule::kFunctionOfSum, kNoState, kNoSizes},
      {"", "ReduceLogSum", 1, kNewestOpset, kNumbers, lower<ReduceKind::sum, Before::none, After::logarithm>,
       work::fold(1), rule::kFunctionOfSum, kNoState, kNoSizes},
      {"", "ReduceLogSumExp", 1, kNewestOpset, kNumbers, lower_log_sum_exp, work::fold(16, 3),
       rule::kFunctionOfSum, kNoState, kNoSizes},
      {"", "ReduceMax", 1, kNewestOpset, kOrdered, lower<ReduceKind::max>, work::fold(1), rule::kReduceMax,
       kNoState, size_rule::kReduceMax},
      {"", "ReduceMean", 1, kNewestOpset, kNumbers, lower<ReduceKind::sum, Before::none, After::mean>,
       work::fold(1), rule::kReduceMean, kNoState, kNoSizes},
      {"", "ReduceMin", 1, kNewestOpset, kOrdered, lower<ReduceKind::min>, work::fold(1), rule::kReduceMin,
       kNoState, size_rule::kReduceMin},
      {"", "ReduceProd", 1, kNewestOpset, kNumbers, lower<ReduceKind::prod>, work::fold(1), rule::kReduceProd,
       kNoState, size_rule::kReduceProd},
      {"", "ReduceSum", 1, kNewestOpset, kNumbers, lower<ReduceKind::sum>, work::fold(1), rule::kReduceSum,
       kNoState, size_rule::kReduceSum},
      {"", "ReduceSumSquare", 1, kNewestOpset, kNumbers, lower<ReduceKind::sum, Before::square>,
       work::fold(2), rule::kSumOfFunction, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
