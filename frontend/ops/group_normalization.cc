// Normalisations over the positions of an image, per channel or per group of channels.
#include "frontend/ops/broadcast.h"
#include "frontend/ops/statistics.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void require_image(OpContext& c) {
  if (c.rank(0) < 2)
    c.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected [N, C, ...]", c.rank(0)));
}

// scale * x + bias, in the type of x
TensorBox on_line(ir::Lowering& l, const TensorBox& x, const TensorBox& scale, const TensorBox& bias) {
  const DType t = x.dtype();
  return binary(l, OpCode::add, binary(l, OpCode::mul, x, l.cast(scale, t)), l.cast(bias, t));
}

void lower_instance_normalization(OpContext& c) {
  require_image(c);
  ir::Lowering& l = c.lowering();
  const TensorBox x = l.cast(c.input(0), compute_type(c.dtype(0)));
  const Normalized n = normalized(l, x, axes_from(2, c.rank(0)), c.float_attribute("epsilon", 1e-5f));
  c.set_output(0, l.cast(on_line(l, n.value, per_channel(c, 1), per_channel(c, 2)), c.dtype(0)));
}

// Since version 21 scale and bias have one number per channel and are applied in the input's type; before,
// one per group.
void lower_group_normalization(OpContext& c) {
  require_image(c);
  ir::Lowering& l = c.lowering();
  const std::int64_t groups = c.int_attribute("num_groups");
  const Expr channels = c.size(0, 1);
  const std::optional<Expr> group_size = ir::divide_exactly(channels, groups);
  if (!group_size) {
    c.fail(errors::kShapeMismatch,
           fmt::format("{} channels cannot be divided into {} groups", to_string(channels), groups));
  }
  const bool per_group = c.version() < 21;
  const std::vector<Expr>& sizes = c.sizes(0);
  std::vector<Expr> grouped{sizes[0], groups, *group_size};
  grouped.insert(grouped.end(), sizes.begin() + 2, sizes.end());
  const DType dtype = c.dtype(0), compute = per_group ? compute_type(dtype) : stash_type(c);
  const TensorBox x = l.reshape(l.cast(c.input(0), compute), grouped);
  const std::vector<int> axes = axes_from(2, static_cast<int>(grouped.size()));
  const TensorBox y = normalized(l, x, axes, c.float_attribute("epsilon", 1e-5f)).value;
  if (!per_group) {
    c.set_output(0, on_line(l, l.cast(l.reshape(y, sizes), dtype), per_channel(c, 1), per_channel(c, 2)));
    return;
  }
  const auto of_group = [&](int k) {
    if (c.rank(k) != 1 || !c.size(k, 0).is_constant(groups)) {
      c.fail(errors::kShapeMismatch,
             fmt::format("input {} must be a vector with one number for each of {} groups", k, groups));
    }
    TensorBox p = c.input(k);
    while (p.rank() + 1 < grouped.size()) p = l.unsqueeze(p, static_cast<int>(p.rank()));
    return p;
  };
  c.set_output(0, l.reshape(l.cast(on_line(l, y, of_group(1), of_group(2)), dtype), sizes));
}

// (x - mean) / (standard deviation + 1e-9)
void lower_mean_variance_normalization(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const DType compute = compute_type(c.dtype(0));
  const std::vector<std::int64_t> given =
      c.ints_attribute("axes").value_or(std::vector<std::int64_t>{0, 2, 3});
  const std::vector<int> axes = c.normalize_axes(given, c.rank(0));
  const TensorBox x = l.cast(c.input(0), compute);
  l.mark_reuse(x, 2);
  const TensorBox centered = binary(l, OpCode::sub, x, mean(l, x, axes));
  l.mark_reuse(centered, 2);
  const TensorBox variance = mean(l, binary(l, OpCode::mul, centered, centered), axes);
  const TensorBox deviation = l.pointwise({variance}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return b.binary(OpCode::add, b.unary(OpCode::sqrt, v[0]), b.constant_of(compute, 1e-9));
  });
  c.set_output(0, l.cast(binary(l, OpCode::div, centered, deviation), c.dtype(0)));
}

}  // namespace

std::span<const OpSpec> group_normalization_ops() {
  static const OpSpec ops[] = {
      {"", "GroupNormalization", 18, kNewestOpset, kFloats, lower_group_normalization, work::reduction(49, 3),
       rule::kGroupNormalization, kNoState, kNoSizes},
      {"", "InstanceNormalization", 1, kNewestOpset, kFloats, lower_instance_normalization,
       work::reduction(49, 3), rule::kInstanceNormalization, kNoState, kNoSizes},
      {"", "MeanVarianceNormalization", 9, kNewestOpset, kFloats, lower_mean_variance_normalization,
       work::reduction(25, 3), rule::kMeanVarianceNormalization, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
