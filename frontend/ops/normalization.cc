// LayerNormalization and RMSNormalization: statistics over the last axes, in two passes, in the type
// `stash_type`.
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

TensorBox mean(ir::Lowering& l, TensorBox x, const std::vector<int>& axes) {
  const Expr count = extent(x.sizes(), axes);
  return l.pointwise({l.reduce(x, ir::ReduceKind::sum, axes, true)},
                     [&](BodyBuilder& b, std::span<const ValueId> v) {
                       return b.binary(OpCode::div, v[0], number(b, count, b.dtype(v[0])));
                     });
}

// 1 / sqrt(mean of squares + epsilon)
TensorBox inverse_deviation(ir::Lowering& l, TensorBox x, const std::vector<int>& axes, double epsilon) {
  const TensorBox squares = binary(l, OpCode::mul, x, x);
  return l.pointwise({mean(l, squares, axes)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return b.unary(OpCode::rsqrt, b.binary(OpCode::add, v[0], b.constant_of(b.dtype(v[0]), epsilon)));
  });
}

DType stash_type(OpContext& c) {
  const DType given = c.dtype_of(c.int_attribute("stash_type", 1));
  // Statistics of doubles in floats would lose precision; ONNX's reference keeps it too.
  return c.dtype(0) == DType::f64 ? DType::f64 : given;
}

std::string list_of(const std::vector<Expr>& sizes) {
  std::vector<std::string> texts;
  for (const Expr& s : sizes) texts.push_back(to_string(s));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// Scale and bias are broadcast to the input; the input is not broadcast to them.
void check_parameter(OpContext& c, int k) {
  const std::vector<Expr>&sizes = c.sizes(0), &own = c.sizes(k);
  const auto fail = [&] {
    c.fail(kShapeMismatch, fmt::format("input {} of sizes [{}] cannot be broadcast to [{}]", k, list_of(own),
                                       list_of(sizes)));
  };
  if (own.size() > sizes.size()) fail();
  for (std::size_t d = 0; d < own.size(); ++d) {
    const Expr size = sizes[d + sizes.size() - own.size()];
    if (own[d].is_constant(1) || own[d] == size) continue;
    if (own[d].is_constant() && size.is_constant()) fail();
    c.lowering().require_equal(own[d], size);
  }
}

void lower_layer_normalization(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const int rank = c.rank(0), axis = c.axis_attribute(rank, -1);
  const std::vector<int> axes = axes_from(axis, rank);
  check_parameter(c, 1);
  if (c.has_input(2)) check_parameter(c, 2);
  const TensorBox x = l.cast(c.input(0), stash_type(c));
  l.mark_reuse(x, 2);
  const TensorBox average = mean(l, x, axes);
  const TensorBox centered = binary(l, OpCode::sub, x, average);
  l.mark_reuse(centered, 2);
  const TensorBox inverse = inverse_deviation(l, centered, axes, c.float_attribute("epsilon", 1e-5f));
  TensorBox y = l.cast(binary(l, OpCode::mul, centered, inverse), c.dtype(0));
  y = binary(l, OpCode::mul, y, c.input(1));
  if (c.has_input(2)) y = binary(l, OpCode::add, y, c.input(2));
  c.set_output(0, y);
  if (c.has_output(1)) c.set_output(1, average);
  if (c.has_output(2)) c.set_output(2, inverse);
}

void lower_rms_normalization(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const int rank = c.rank(0), axis = c.axis_attribute(rank, -1);
  check_parameter(c, 1);
  const TensorBox x = l.cast(c.input(0), stash_type(c));
  l.mark_reuse(x, 2);
  const TensorBox inverse =
      inverse_deviation(l, x, axes_from(axis, rank), c.float_attribute("epsilon", 1e-5f));
  const DType out = c.dtype(1);  // the scale's type is the result's
  c.set_output(0, binary(l, OpCode::mul, l.cast(binary(l, OpCode::mul, x, inverse), out), c.input(1)));
  if (c.has_output(1)) c.set_output(1, inverse);  // SimplifiedLayerNormalization
}

const OpSpec kOps[] = {
    {"", "LayerNormalization", 17, kNewestOpset, kFloats, lower_layer_normalization},
    {"", "RMSNormalization", 23, kNewestOpset, kFloats, lower_rms_normalization},
    {"", "SimplifiedLayerNormalization", 1, kNewestOpset, kFloats, lower_rms_normalization},
};

}  // namespace

std::span<const OpSpec> normalization_ops() { return kOps; }

}  // namespace braid::frontend
