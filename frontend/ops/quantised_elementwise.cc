// Operators of com.microsoft on quantised tensors that ONNX Runtime computes with numbers and quantises
// again: elementwise ones, reductions, pools, softmax, concatenation.
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>

#include "frontend/ops/quantised.h"
#include "frontend/ops/statistics.h"
#include "frontend/ops/windows.h"
#include "frontend/schemas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// The scales of `numerators` over that of input `denominator`, if all are constants and their ratio fits f32.
// One factor then takes the place of scales and of a division per element. A ratio may be too small for all
// bits of f32: such a term changes no rounded result.
std::optional<TensorBox> ratio(OpContext& c, std::initializer_list<int> numerators, int denominator) {
  double ratio = 1;
  for (const int k : numerators) {
    const std::optional<double> scale = c.constant_scalar(k);
    if (!scale) return std::nullopt;
    one_scale(c, k);  // refuses what is no scale
    ratio *= *scale;
  }
  const std::optional<double> by = c.constant_scalar(denominator);
  if (!by) return std::nullopt;
  one_scale(c, denominator);
  ratio /= *by;
  if (ratio > static_cast<double>(std::numeric_limits<float>::max())) return std::nullopt;
  return c.lowering().scalar(DType::f32, static_cast<double>(static_cast<float>(ratio)));
}

TensorBox stored(OpContext& c, int tensor, int zero) {
  const TensorBox x = c.input(tensor);
  return centred(c.lowering(), x, one_zero(c, zero, x.dtype()));
}

TensorBox rounded(OpContext& c, const TensorBox& x, int zero) {
  const DType type = c.has_input(zero) ? c.dtype(zero) : c.dtype(0);
  return rounded_to(c.lowering(), x, one_zero(c, zero, type), type);
}

void lower_quantised_add(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::optional<TensorBox> of_a = ratio(c, {1}, 6), of_b = ratio(c, {4}, 6);
  if (!of_a || !of_b) {
    const TensorBox y = binary(l, OpCode::add, dequantised(c, {0, 1, 2}), dequantised(c, {3, 4, 5}));
    return c.set_output(0, quantised(c, y, {-1, 6, 7}, c.dtype(0)));
  }
  const TensorBox a = scaled(l, stored(c, 0, 2), *of_a), b = scaled(l, stored(c, 3, 5), *of_b);
  c.set_output(0, rounded(c, binary(l, OpCode::add, a, b), 7));
}

// Products of two bytes less their zero points are exact in i32.
void lower_quantised_mul(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::optional<TensorBox> factor = ratio(c, {1, 4}, 6);
  if (!factor) {
    const TensorBox y = binary(l, OpCode::mul, dequantised(c, {0, 1, 2}), dequantised(c, {3, 4, 5}));
    return c.set_output(0, quantised(c, y, {-1, 6, 7}, c.dtype(0)));
  }
  const TensorBox product = binary(l, OpCode::mul, stored(c, 0, 2), stored(c, 3, 5));
  c.set_output(0, rounded(c, scaled(l, product, *factor), 7));
}

// Sets the result of an operator with one tensor. Tensor, scale and zero point are inputs 0 to 2; scale and
// zero point of the result are inputs 3 and 4.
void set_unary(OpContext& c, const TensorBox& y) { c.set_output(0, quantised(c, y, {-1, 3, 4}, c.dtype(0))); }

void lower_quantised_sigmoid(OpContext& c) {
  set_unary(c, unary(c.lowering(), OpCode::sigmoid, dequantised(c, {0, 1, 2})));
}

void lower_quantised_leaky_relu(OpContext& c) {
  const double alpha = c.float_attribute("alpha", 0.01f);
  set_unary(
      c, c.lowering().pointwise({dequantised(c, {0, 1, 2})}, [&](BodyBuilder& b, std::span<const ValueId> v) {
        const ValueId below = b.binary(OpCode::mul, v[0], b.constant_of(DType::f32, alpha));
        return b.where(b.binary(OpCode::ge, v[0], b.constant_of(DType::f32, 0)), v[0], below);
      }));
}

// Attribute opset is the version of Softmax: up to 12, all axes from `axis` on are normalised together.
void lower_quantised_softmax(OpContext& c) {
  ir::Lowering& l = c.lowering();
  constexpr int kOneAxis = 13;
  const int rank = c.rank(0), axis = c.axis_attribute(rank, -1);
  const std::vector<int> axes =
      c.int_attribute("opset") >= kOneAxis ? std::vector<int>{axis} : axes_from(axis, rank);
  const TensorBox x = dequantised(c, {0, 1, 2});
  l.mark_reuse(x, 2);
  const TensorBox powers =
      unary(l, OpCode::exp, binary(l, OpCode::sub, x, l.reduce(x, ir::ReduceKind::max, axes, true)));
  l.mark_reuse(powers, 2);
  set_unary(c, binary(l, OpCode::div, powers, l.reduce(powers, ir::ReduceKind::sum, axes, true)));
}

// The mean of the numbers that x, bytes less their zero point, stands for. Their sum is exact where i32 holds
// it for all sizes.
TensorBox mean_of(OpContext& c, const TensorBox& x, const std::vector<int>& axes) {
  ir::Lowering& l = c.lowering();
  constexpr std::int64_t kLargest = 255;
  const Expr count = extent(x.sizes(), axes);
  if (ir::bounds(count).max > std::numeric_limits<std::int32_t>::max() / kLargest)
    return mean(l, scaled(l, x, one_scale(c, 1)), axes);
  const TensorBox sum = axes.empty() ? x : l.reduce(x, ir::ReduceKind::sum, axes, true);
  const TensorBox average = l.pointwise({sum}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return b.binary(OpCode::div, b.cast(v[0], DType::f32), number(b, count, DType::f32));
  });
  return scaled(l, average, one_scale(c, 1));  // whose product with the sum may not fit f32
}

void lower_reduce_mean(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const int rank = c.rank(0);
  std::vector<int> axes = axes_from(0, rank);
  if (const auto given = c.ints_attribute("axes"); given && !given->empty())
    axes = c.normalize_axes(*given, rank);
  TensorBox y = mean_of(c, stored(c, 0, 2), axes);
  if (c.int_attribute("keepdims", 1) == 0) {
    for (std::size_t k = axes.size(); k-- > 0;) y = l.squeeze(y, axes[k]);
  }
  set_unary(c, y);
}

TensorBox to_channels_first(OpContext& c, const TensorBox& x) {
  const int rank = static_cast<int>(x.rank());
  if (c.int_attribute("channels_last", 0) == 0 || rank < 3) return x;
  std::vector<int> order = axes_from(1, rank - 1);
  order.insert(order.begin(), {0, rank - 1});
  return c.lowering().permute(x, order);
}

TensorBox from_channels_first(OpContext& c, const TensorBox& y) {
  const int rank = static_cast<int>(y.rank());
  if (c.int_attribute("channels_last", 0) == 0 || rank < 3) return y;
  std::vector<int> order = axes_from(2, rank);
  order.insert(order.begin(), 0);
  order.push_back(1);
  return c.lowering().permute(y, order);
}

void lower_quantised_average_pool(OpContext& c) {
  const TensorBox x = to_channels_first(c, dequantised(c, {0, 1, 2}));
  set_unary(c, from_channels_first(c, average_pool(c, x)));
}

void lower_quantised_global_average_pool(OpContext& c) {
  const int rank = c.rank(0);
  if (rank < 3)
    c.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected at least 3", rank));
  const TensorBox x = to_channels_first(c, stored(c, 0, 2));
  set_unary(c, from_channels_first(c, mean_of(c, x, axes_from(2, rank))));
}

void lower_quantised_where(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.dtype(4) != c.dtype(1)) {
    c.fail(errors::kTypeMismatch,
           fmt::format("the alternatives are {} and {}", to_string(c.dtype(1)), to_string(c.dtype(4))));
  }
  const TensorBox y =
      l.pointwise({c.input(0), dequantised(c, {1, 2, 3}), dequantised(c, {4, 5, 6})},
                  [](BodyBuilder& b, std::span<const ValueId> v) { return b.where(v[0], v[1], v[2]); });
  c.set_output(0, quantised(c, y, {-1, 7, 8}, c.dtype(1)));
}

// Inputs: scale and zero point of the result, then tensor, scale and zero point of each part. Parts that are
// quantised as the result is are only moved.
void lower_quantised_concat(OpContext& c) {
  const int first = 2, each = 3;
  if (c.input_count() < first + each || (c.input_count() - first) % each != 0)
    c.fail(errors::kInvalidNode,
           fmt::format("got {} inputs, expected 2 and 3 for each part", c.input_count()));
  const DType to = c.dtype(1);
  const auto same = [&](int a, int b) {
    const std::optional<double> x = c.constant_scalar(a), y = c.constant_scalar(b);
    return x && y && *x == *y;
  };
  std::vector<TensorBox> parts;
  for (int k = first; k < c.input_count(); k += each) {
    if (c.rank(k) != c.rank(first))
      c.fail(errors::kShapeMismatch, fmt::format("parts have ranks {} and {}", c.rank(first), c.rank(k)));
    const bool moved = c.dtype(k) == to && same(k + 1, 0) && same(k + 2, 1);
    const QuantisedInput part{k, k + 1, k + 2};
    if (moved) one_scale(c, k + 1);
    parts.push_back(moved ? c.input(k) : quantised(c, dequantised(c, part), {-1, 0, 1}, to));
  }
  if (c.rank(first) == 0) c.fail(errors::kShapeMismatch, "the parts are scalars");
  const int axis = c.normalize_axis(c.int_attribute("axis"), c.rank(first));
  for (const TensorBox& part : parts) {
    for (std::size_t d = 0; d < part.rank(); ++d) {
      if (static_cast<int>(d) == axis) continue;
      const Expr size = part.sizes()[d], expected = parts[0].sizes()[d];
      if (size.is_constant() && expected.is_constant() && !(size == expected))
        c.fail(errors::kShapeMismatch, fmt::format("parts have sizes {} and {} along axis {}",
                                                   to_string(expected), to_string(size), d));
      c.lowering().require_equal(size, expected);
    }
  }
  c.set_output(0, c.lowering().concat(std::move(parts), axis));
}

}  // namespace

std::span<const OpSpec> quantised_elementwise_ops() {
  static const OpSpec ops[] = {
      {kMicrosoftDomain, "QLinearAdd", 1, 1, kQuantisedBytes, lower_quantised_add, work::pointwise(26),
       rule::kQLinearBinary, kNoState, kNoSizes},
      {kMicrosoftDomain, "QLinearAveragePool", 1, 1, kQuantisedBytes, lower_quantised_average_pool,
       work::widened_pool(3), rule::kQLinearPool, kNoState, kNoSizes},
      {kMicrosoftDomain, "QLinearConcat", 1, 1, TypeSet{DType::f32}, lower_quantised_concat,
       work::pointwise(20), rule::kQLinearConcat, kNoState, kNoSizes},
      {kMicrosoftDomain, "QLinearGlobalAveragePool", 1, 1, kQuantisedBytes,
       lower_quantised_global_average_pool, work::reduction(6), rule::kQLinearGlobalPool, kNoState, kNoSizes},
      {kMicrosoftDomain, "QLinearLeakyRelu", 1, 1, kQuantisedBytes, lower_quantised_leaky_relu,
       work::pointwise(20), rule::kQLinearUnary, kNoState, kNoSizes},
      {kMicrosoftDomain, "QLinearMul", 1, 1, kQuantisedBytes, lower_quantised_mul, work::pointwise(26),
       rule::kQLinearBinary, kNoState, kNoSizes},
      {kMicrosoftDomain, "QLinearReduceMean", 1, 1, kQuantisedBytes, lower_reduce_mean, work::reduction(6),
       rule::kQLinearMean, kNoState, kNoSizes},
      {kMicrosoftDomain, "QLinearSigmoid", 1, 1, kQuantisedBytes, lower_quantised_sigmoid,
       work::pointwise(30), rule::kQLinearUnary, kNoState, kNoSizes},
      {kMicrosoftDomain, "QLinearSoftmax", 1, 1, kQuantisedBytes, lower_quantised_softmax,
       work::reduction(43), rule::kQLinearSoftmax, kNoState, kNoSizes},
      {kMicrosoftDomain, "QLinearWhere", 1, 1, kBool, lower_quantised_where, work::pointwise(26),
       rule::kQLinearChoice, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
