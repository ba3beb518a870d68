// Activation functions of com.microsoft, most of them of an input and a bias.
#include "frontend/ops/activation_formulas.h"
#include "frontend/ops/operand_sizes.h"
#include "frontend/schemas.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using Formula = ValueId (*)(BodyBuilder&, ValueId);

// f(x + bias) in compute_type, rounded once. The bias is a vector along the last axis.
template <Formula formula>
void lower_biased(OpContext& c) {
  if (!c.has_input(1)) return set_elementwise(c, formula);
  require_rank(c, 1, {1});
  if (c.rank(0) == 0) c.fail(errors::kShapeMismatch, "the input is a scalar");
  require_sizes(c, 1, {c.size(0, -1)}, "the size of the last axis");
  const DType dtype = c.dtype(0), compute = compute_type(dtype);
  c.set_output(
      0, c.lowering().pointwise({c.input(0), c.input(1)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
        return b.cast(formula(b, b.binary(OpCode::add, b.cast(v[0], compute), b.cast(v[1], compute))), dtype);
      }));
}

void lower_quick_gelu(OpContext& c) {
  const double alpha = c.float_attribute("alpha", 1.702f);
  set_elementwise(c, [&](BodyBuilder& b, ValueId x) { return swish(b, x, alpha); });
}

// [batch, size, channels] plus a bias per channel plus a residual.
void lower_bias_add(OpContext& c) {
  require_rank(c, 0, {3});
  require_sizes(c, 1, {c.size(0, 2)}, "the number of channels");
  require_sizes(c, 2, c.sizes(0), "(batch, size, channels)");
  const DType dtype = c.dtype(0), compute = compute_type(dtype);
  c.set_output(0, c.lowering().pointwise(
                      {c.input(0), c.input(1), c.input(2)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
                        const ValueId biased =
                            b.binary(OpCode::add, b.cast(v[0], compute), b.cast(v[1], compute));
                        return b.cast(b.binary(OpCode::add, biased, b.cast(v[2], compute)), dtype);
                      }));
}

// The left half of x + bias times gelu of the right half.
void lower_bias_split_gelu(OpContext& c) {
  ir::Lowering& l = c.lowering();
  require_rank(c, 0, {3});
  require_sizes(c, 1, {c.size(0, 2)}, "the hidden size");
  const std::int64_t hidden = known_size(c, c.size(0, 2), "the hidden size");
  if (hidden % 2 != 0) c.fail(errors::kShapeMismatch, fmt::format("the hidden size {} is odd", hidden));
  const DType dtype = c.dtype(0), compute = compute_type(dtype);
  const TensorBox sum = binary(l, OpCode::add, l.cast(c.input(0), compute), l.cast(c.input(1), compute));
  c.set_output(0, l.pointwise({l.slice(sum, 2, 0, hidden / 2), l.slice(sum, 2, hidden / 2, hidden / 2)},
                              [&](BodyBuilder& b, std::span<const ValueId> v) {
                                return b.cast(b.binary(OpCode::mul, v[0], gelu(b, v[1])), dtype);
                              }));
}

}  // namespace

std::span<const OpSpec> biased_activation_ops() {
  static const OpSpec ops[] = {
      {kMicrosoftDomain, "BiasAdd", 1, 1, TypeSet{DType::f32, DType::f16}, lower_bias_add, work::pointwise(2),
       rule::kAdditive, kNoState, kNoSizes},
      {kMicrosoftDomain, "BiasGelu", 1, 1, kFloats, lower_biased<gelu>, work::pointwise(14),
       rule::kElementwise, kNoState, kNoSizes},
      {kMicrosoftDomain, "BiasSplitGelu", 1, 1, TypeSet{DType::f32, DType::f16}, lower_bias_split_gelu,
       work::pointwise(17), rule::kHalves, kNoState, kNoSizes},
      {kMicrosoftDomain, "FastGelu", 1, 1, kFloats, lower_biased<gelu_by_tanh>, work::pointwise(18),
       rule::kElementwise, kNoState, kNoSizes},
      {kMicrosoftDomain, "Gelu", 1, 1, kFloats, lower_biased<gelu>, work::pointwise(14), rule::kElementwise,
       kNoState, kNoSizes},
      {kMicrosoftDomain, "QuickGelu", 1, 1, kFloats, lower_quick_gelu, work::pointwise(11),
       rule::kElementwise, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
