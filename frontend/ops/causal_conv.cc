// CausalConvWithState: a convolution of each channel with its own window, which sees only present and past. A
// state holds the elements before the input; they are zero if it is absent.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

TensorBox silu(ir::Lowering& l, const TensorBox& x) {
  const DType compute = compute_type(x.dtype());
  return l.pointwise({x}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const ValueId wide = b.cast(v[0], compute);
    return b.cast(b.binary(OpCode::mul, wide, b.unary(OpCode::sigmoid, wide)), x.dtype());
  });
}

void lower_causal_conv(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::string activation = c.string_attribute("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'activation' is '{}', expected none, silu or swish", activation));
  }
  if (c.rank(0) != 3 || c.rank(1) != 3) {
    c.fail(errors::kShapeMismatch,
           fmt::format("input of rank {} and weights of rank {}, expected 3", c.rank(0), c.rank(1)));
  }
  const TensorBox x = c.input(0), weights = c.input(1);
  const Expr window = weights.sizes()[2], past = window - 1;
  if (ir::bounds(window).min < 1) c.fail(errors::kShapeMismatch, "the window is empty");
  l.require_equal(weights.sizes()[0], x.sizes()[1]);
  l.require_equal(weights.sizes()[1], 1);
  std::optional<TensorBox> state, bias;
  if (c.has_input(2)) {
    if (c.rank(2) != 1)
      c.fail(errors::kShapeMismatch, fmt::format("the bias has rank {}, expected 1", c.rank(2)));
    bias = c.input(2);
    l.require_equal(bias->sizes()[0], x.sizes()[1]);
  }
  if (c.has_input(3)) {
    if (c.rank(3) != 3)
      c.fail(errors::kShapeMismatch, fmt::format("the state has rank {}, expected 3", c.rank(3)));
    state = c.input(3);
    l.require_equal(state->sizes()[0], x.sizes()[0]);
    l.require_equal(state->sizes()[1], x.sizes()[1]);
    l.require_equal(state->sizes()[2], past);
  }
  // Element `time` of a channel's state followed by its input.
  const auto element = [&](BodyBuilder& b, Expr batch, Expr channel, Expr time) {
    const std::vector<Expr> now{batch, channel, time - past}, before{batch, channel, time};
    const ValueId is_past = b.binary(OpCode::lt, b.index(time), b.index(past));
    const ValueId present = l.load(b, x, now, b.unary(OpCode::logical_not, is_past));
    return state ? b.where(is_past, l.load(b, *state, before, is_past), present) : present;
  };
  const DType dtype = x.dtype(), compute = compute_type(dtype);
  std::vector<Expr> sizes = x.sizes();
  sizes.push_back(window);
  const TensorBox terms = l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    const std::vector<Expr> weight{at[1], 0, at[3]};
    return b.binary(OpCode::mul, b.cast(element(b, at[0], at[1], at[2] + at[3]), compute),
                    b.cast(l.load(b, weights, weight), compute));
  });
  TensorBox y = l.reduce(terms, ir::ReduceKind::sum, {3}, false);
  if (bias) y = binary(l, OpCode::add, y, l.reshape(l.cast(*bias, compute), {x.sizes()[1], 1}));
  y = l.cast(y, dtype);
  c.set_output(0, activation == "none" ? y : silu(l, y));
  c.set_output(1,
               l.generate({x.sizes()[0], x.sizes()[1], past}, [&](BodyBuilder& b, std::span<const Expr> at) {
                 return element(b, at[0], at[1], at[2] + x.sizes()[2]);
               }));
}

}  // namespace

std::span<const OpSpec> causal_conv_ops() {
  static const OpSpec ops[] = {
      {"", "CausalConvWithState", 27, kNewestOpset, kFloats, lower_causal_conv,
       work::causal_convolution(0, 1), rule::kCausalConv, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
