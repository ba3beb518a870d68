// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss. ONNX's function bodies of both are valid in single
// operator sets only.
#include "frontend/ops/index.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::ReduceKind;

// Minus the logarithm of the probability of each target's class, weighted, and the weights; `x` has the
// classes along axis 1. Targets of attribute `ignore_index` weigh 0.
struct Losses {
  TensorBox loss, weight;
};
Losses losses(OpContext& c, const TensorBox& x) {
  ir::Lowering& l = c.lowering();
  if (x.rank() < 2 || c.rank(1) + 1 != static_cast<int>(x.rank())) {
    c.fail(errors::kShapeMismatch,
           fmt::format("ranks {} and {} of input and target, expected [N, C, ...] and [N, ...]", x.rank(),
                       c.rank(1)));
  }
  const Expr classes = x.sizes()[1];
  std::vector<Expr> sizes = x.sizes();
  sizes.erase(sizes.begin() + 1);
  const auto require_equal = [&](Expr size, Expr expected, const char* what) {
    if (size.is_constant() && expected.is_constant() && !(size == expected)) {
      c.fail(errors::kShapeMismatch,
             fmt::format("{} has size {}, expected {}", what, to_string(size), to_string(expected)));
    }
    l.require_equal(size, expected);
  };
  for (std::size_t k = 0; k < sizes.size(); ++k)
    require_equal(c.sizes(1)[k], sizes[k], "a dimension of the target");
  const TensorBox target = l.cast(c.input(1), DType::i64);
  std::optional<TensorBox> weights;
  if (c.has_input(2)) {
    if (c.rank(2) != 1)
      c.fail(errors::kShapeMismatch, fmt::format("the weights have rank {}, expected 1", c.rank(2)));
    require_equal(c.size(2, 0), classes, "the vector of weights");
    weights = l.cast(c.input(2), x.dtype());
  }
  const bool ignores = c.has_attribute("ignore_index");
  const auto at_target = [&](BodyBuilder& b, std::span<const Expr> at, bool with_loss) {
    const ValueId given = l.load(b, target, at);
    const ValueId ignored =
        ignores ? b.binary(OpCode::eq, given, b.constant(DType::i64, c.int_attribute("ignore_index", 0)))
                : b.constant(DType::boolean, std::int64_t{0});
    const ValueId wanted = ignores ? b.where(ignored, b.constant(DType::i64, std::int64_t{0}), given) : given;
    const Expr index = checked_index(b, wanted, classes, sizes);
    const ValueId zero = b.constant_of(x.dtype(), 0);
    const std::vector<Expr> of_class{index};
    ValueId value = weights ? l.load(b, *weights, of_class) : b.constant_of(x.dtype(), 1);
    if (with_loss) {
      std::vector<Expr> source(at.begin(), at.end());
      source.insert(source.begin() + 1, index);
      value = b.binary(OpCode::mul, value, b.unary(OpCode::neg, l.load(b, x, source)));
    }
    return ignores ? b.where(ignored, zero, value) : value;
  };
  return {
      l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) { return at_target(b, at, true); }),
      l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) { return at_target(b, at, false); })};
}

void set_loss(OpContext& c, const TensorBox& x) {
  ir::Lowering& l = c.lowering();
  const std::string reduction = c.string_attribute("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean") {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'reduction' is '{}', expected none, sum or mean", reduction));
  }
  const Losses all = losses(c, x);
  const auto sum = [&](const TensorBox& y) {
    return l.reduce(y, ReduceKind::sum, axes_from(0, static_cast<int>(y.rank())), false);
  };
  TensorBox result = reduction == "none" ? all.loss : sum(all.loss);
  if (reduction == "mean") result = binary(l, OpCode::div, result, sum(all.weight));
  c.set_output(0, l.cast(result, c.dtype(0)));
}

void lower_likelihood(OpContext& c) { set_loss(c, c.lowering().cast(c.input(0), compute_type(c.dtype(0)))); }

void lower_cross_entropy(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) < 2)
    c.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected [N, C, ...]", c.rank(0)));
  const TensorBox x = l.cast(c.input(0), compute_type(c.dtype(0)));
  l.mark_reuse(x, 2);
  const TensorBox shifted = binary(l, OpCode::sub, x, l.reduce(x, ReduceKind::max, {1}, true));
  l.mark_reuse(shifted, 2);
  const TensorBox total = l.reduce(unary(l, OpCode::exp, shifted), ReduceKind::sum, {1}, true);
  const TensorBox logarithms = binary(l, OpCode::sub, shifted, unary(l, OpCode::log, total));
  if (c.has_output(1)) l.mark_reuse(logarithms, 2);
  set_loss(c, logarithms);
  c.set_output(1, l.cast(logarithms, c.dtype(0)));
}

constexpr const char* kScalar = "it reduces to one number with weights";

}  // namespace

std::span<const OpSpec> loss_ops() {
  static const OpSpec ops[] = {
      {"", "NegativeLogLikelihoodLoss", 12, kNewestOpset, kFloats, lower_likelihood,
       work::reduction(7).of_inputs(1).looking_up(), sharding::replicated(kScalar), kNoState, kNoSizes},
      {"", "SoftmaxCrossEntropyLoss", 12, kNewestOpset, kFloats, lower_cross_entropy, work::reduction(14, 2),
       sharding::replicated(kScalar), kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
