// GroupNorm and SkipGroupNorm of com.microsoft: normalisation over groups of channels, which may be last,
// with a residual before it and SiLU after it. Everything is computed in f32 and rounded once.
#include "frontend/ops/activation_formulas.h"
#include "frontend/ops/operand_sizes.h"
#include "frontend/ops/statistics.h"
#include "frontend/schemas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

enum Input { input, gamma, beta, skip, bias };

// The axis of the channels, and the axes that are normalised together once the channels are split into
// groups.
struct Layout {
  std::size_t channel;          // of the input
  std::vector<Expr> grouped;    // sizes with the channels as (groups, channels of a group)
  std::vector<int> normalised;  // axes of these
};

Layout layout_of(OpContext& c) {
  const std::vector<Expr>& sizes = c.sizes(input);
  if (sizes.size() < 3)
    c.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected at least 3", sizes.size()));
  Layout layout;
  layout.channel = c.int_attribute("channels_last", 1) != 0 ? sizes.size() - 1 : 1;
  const std::int64_t groups = c.int_attribute("groups"),
                     channels = known_size(c, sizes[layout.channel], "the number of channels");
  if (groups < 1 || channels % groups != 0) {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'groups' is {}, which does not divide the {} channels", groups, channels));
  }
  layout.grouped = sizes;
  layout.grouped[layout.channel] = groups;
  layout.grouped.insert(layout.grouped.begin() + static_cast<std::ptrdiff_t>(layout.channel) + 1,
                        channels / groups);
  for (std::size_t d = 1; d < layout.grouped.size(); ++d) {
    if (d != layout.channel) layout.normalised.push_back(static_cast<int>(d));
  }
  return layout;
}

// A vector with one number per channel, in f32 and in a shape that is broadcast to the input.
TensorBox per_channel(OpContext& c, int k, const Layout& layout) {
  const std::vector<Expr>& sizes = c.sizes(input);
  require_sizes(c, k, {sizes[layout.channel]}, "the number of channels");
  TensorBox x = c.lowering().cast(c.input(k), DType::f32);
  for (std::size_t d = layout.channel + 1; d < sizes.size(); ++d)
    x = c.lowering().unsqueeze(x, static_cast<int>(d - layout.channel));
  return x;
}

// The input plus the residual, which may be the same at all positions, and the bias.
TensorBox with_residual(OpContext& c, const Layout& layout) {
  ir::Lowering& l = c.lowering();
  const std::vector<Expr>& sizes = c.sizes(input);
  std::vector<Expr> reduced(sizes.size(), 1);
  reduced[0] = sizes[0];
  reduced[layout.channel] = sizes[layout.channel];
  TensorBox residual = l.cast(c.input(skip), DType::f32);
  if (c.rank(skip) == 2) {
    require_sizes(c, skip, {sizes[0], sizes[layout.channel]}, "(batch, channels)");
    residual = l.reshape(residual, reduced);
  } else {
    bool everywhere = c.rank(skip) == static_cast<int>(sizes.size());
    for (std::size_t d = 1; everywhere && d < sizes.size(); ++d)
      everywhere = d == layout.channel || c.sizes(skip)[d].is_constant(1);
    require_sizes(c, skip, everywhere ? reduced : sizes, "the sizes of the input, or 1 along spatial axes");
  }
  TensorBox sum = binary(l, OpCode::add, l.cast(c.input(input), DType::f32), residual);
  if (c.has_input(bias)) sum = binary(l, OpCode::add, sum, per_channel(c, bias, layout));
  return sum;
}

template <bool skips>
void lower_group_norm(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const Layout layout = layout_of(c);
  const std::int64_t activation = c.int_attribute("activation");
  if (activation != 0 && activation != 1)
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'activation' is {}, expected 0 or 1", activation));
  const DType dtype = c.dtype(input);
  const TensorBox sum = skips ? with_residual(c, layout) : l.cast(c.input(input), DType::f32);
  l.mark_reuse(sum, 3);
  const Normalized n =
      normalized(l, l.reshape(sum, layout.grouped), layout.normalised, c.float_attribute("epsilon", 1e-5f));
  const TensorBox y = l.reshape(n.value, c.sizes(input));
  c.set_output(0, l.pointwise({y, per_channel(c, gamma, layout), per_channel(c, beta, layout)},
                              [&](BodyBuilder& b, std::span<const ValueId> v) {
                                const ValueId line =
                                    b.binary(OpCode::add, b.binary(OpCode::mul, v[0], v[1]), v[2]);
                                return b.cast(activation == 1 ? swish(b, line, 1) : line, dtype);
                              }));
  if (skips && c.has_output(1)) c.set_output(1, l.cast(sum, dtype));
}

constexpr TypeSet kTypes = {DType::f32, DType::f16};

}  // namespace

std::span<const OpSpec> fused_group_normalization_ops() {
  static const OpSpec ops[] = {
      {kMicrosoftDomain, "GroupNorm", 1, 1, kTypes, lower_group_norm<false>, work::reduction(29, 3),
       rule::kFusedGroupNormalization, kNoState, kNoSizes},
      {kMicrosoftDomain, "SkipGroupNorm", 1, 1, kTypes, lower_group_norm<true>, work::reduction(20, 6),
       rule::kFusedGroupNormalization, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
