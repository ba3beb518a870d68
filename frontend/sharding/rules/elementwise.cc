// Operators that compute each element from the elements at the same place, with broadcasting: every dimension
// passes. A pending sum passes only through what is linear in it.
#include <numeric>

#include "frontend/schemas.h"
#include "frontend/sharding/rules.h"

namespace braid::frontend::sharding {
namespace {

std::vector<int> all_inputs(const NodeView& node) {
  std::vector<int> inputs(static_cast<std::size_t>(node.inputs()));
  std::iota(inputs.begin(), inputs.end(), 0);
  return inputs;
}

// Truncation makes quotients of integers nonlinear.
Pending pending_of(const NodeView& node, const Rule& rule) {
  const bool quotient = node.op() == "Div" || node.op() == "Mean";
  return quotient && !is_float(node.output(0).dtype) ? Pending::none : rule.pending;
}

Factors elementwise(const NodeView& node, const Rule& rule) {
  Factors f{broadcast_letters(node, all_inputs(node)), linear_of(node, pending_of(node, rule))};
  // An integer divided by padding that is zero would be an error, and so may be a power of it.
  const bool may_fail =
      (node.op() == "Div" || node.op() == "Mod" || node.op() == "Pow") && !is_float(node.output(0).dtype);
  return may_fail ? f : padded(std::move(f));
}

// Only the first input has the sizes of the result; others are scalars, or only give a type.
Factors first_only(const NodeView& node, const Rule& rule) {
  return padded({broadcast_letters(node, {0}), linear_of(node, rule.pending)});
}

// Slopes are broadcast to x, and never the other way round.
Factors parametric(const NodeView& node, const Rule&) { return {broadcast_letters(node, {0, 1}), {}}; }

// The bits of elements of one size; the last dimension changes with the size of the type.
Factors bits(const NodeView& node, const Rule&) {
  if (ir::size_of(node.input(0).dtype) != ir::size_of(node.output(0).dtype)) return {};
  return {broadcast_letters(node, {0}), {}};
}

// condition, x, y: linear in x and y together.
Factors choice(const NodeView& node, const Rule&) {
  return padded({broadcast_letters(node, {0, 1, 2}), {{{1, 2}, {ir::ReduceKind::sum}}}});
}

// With random numbers it is not elementwise: ranks would draw different numbers.
Factors dropout(const NodeView& node, const Rule&) {
  if (node.version() < 7 && node.int_attribute("is_test", 0) == 0) return {};
  if (node.has_input(2)) {
    const auto training = node.known_ints(2);
    if (!training || training->at(0) != 0) return {};
  }
  Factors f{broadcast_letters(node, {0}), {}};
  if (node.outputs() > 1 && node.node().outputs[1] >= 0) {
    for (Letter& letter : f.letters) letter.at.push_back(out(1, letter.at[0].dim));
  }
  return f;
}

// x [batch, size, 2 * hidden] plus a bias; the halves of the last dimension meet.
Factors halves(const NodeView& node, const Rule&) {
  Factors f{broadcast_letters(node, {0}, {2}), {}};
  if (std::optional<Letter> hidden = letter_of(node.out_size(0, 2), "hidden")) {
    hidden->at = {in(0, 2, {1, 1}), in(1, 0, {1, 1}), out(0, 2)};
    f.letters.push_back(std::move(*hidden));
  }
  return f;
}

constexpr Pending kLinear = Pending::additive, kRising = Pending::increasing;

const Rule kRules[] = {
    {"", "Abs", elementwise},
    {"", "Acos", elementwise},
    {"", "Acosh", elementwise},
    {"", "Asin", elementwise},
    {"", "Asinh", elementwise},
    {"", "Atan", elementwise},
    {"", "Atanh", elementwise},
    {"", "Ceil", elementwise, kRising},
    {"", "Cos", elementwise},
    {"", "Cosh", elementwise},
    {"", "Erf", elementwise},
    {"", "Exp", elementwise},
    {"", "Floor", elementwise, kRising},
    {"", "IsInf", elementwise},
    {"", "IsNaN", elementwise},
    {"", "Log", elementwise},
    {"", "Neg", elementwise, kLinear},
    {"", "Not", elementwise},
    {"", "Reciprocal", elementwise},
    {"", "Round", elementwise, kRising},
    {"", "Sigmoid", elementwise},
    {"", "Sign", elementwise},
    {"", "Sin", elementwise},
    {"", "Sinh", elementwise},
    {"", "Sqrt", elementwise},
    {"", "Tan", elementwise},
    {"", "Tanh", elementwise},

    {"", "Add", elementwise, kLinear},
    {"", "And", elementwise},
    {"", "BitShift", elementwise},
    {"", "BitwiseAnd", elementwise},
    {"", "BitwiseNot", elementwise},
    {"", "BitwiseOr", elementwise},
    {"", "BitwiseXor", elementwise},
    {"", "Div", elementwise, Pending::first},
    {"", "Equal", elementwise},
    {"", "Greater", elementwise},
    {"", "GreaterOrEqual", elementwise},
    {"", "Less", elementwise},
    {"", "LessOrEqual", elementwise},
    {"", "Max", elementwise},
    {"", "Mean", elementwise, kLinear},
    {"", "Min", elementwise},
    {"", "Mod", elementwise},
    {"", "Mul", elementwise, Pending::multilinear},
    {"", "Or", elementwise},
    {"", "Pow", elementwise},
    {"", "Sub", elementwise, kLinear},
    {"", "Sum", elementwise, kLinear},
    {"", "Where", choice},
    {"", "Xor", elementwise},

    {"", "BitCast", bits},
    {"", "Cast", first_only},
    {"", "CastLike", first_only},
    {"", "Celu", elementwise},
    {"", "Clip", first_only},
    {"", "Dropout", dropout},
    {"", "Elu", elementwise},
    {"", "Gelu", elementwise},
    {"", "HardSigmoid", elementwise},
    {"", "HardSwish", elementwise},
    {"", "Identity", elementwise, Pending::any},
    {"", "LeakyRelu", elementwise},
    {"", "Mish", elementwise},
    {"", "PRelu", parametric},
    {"", "Relu", elementwise, kRising},
    {"", "Selu", elementwise},
    {"", "Shrink", elementwise},
    {"", "Softplus", elementwise},
    {"", "Softsign", elementwise},
    {"", "Swish", elementwise},
    {"", "ThresholdedRelu", elementwise},

    {kMicrosoftDomain, "BiasAdd", elementwise, kLinear},
    {kMicrosoftDomain, "BiasGelu", elementwise},
    {kMicrosoftDomain, "BiasSplitGelu", halves},
    {kMicrosoftDomain, "FastGelu", elementwise},
    {kMicrosoftDomain, "Gelu", elementwise},
    {kMicrosoftDomain, "QuickGelu", elementwise},
};

}  // namespace

std::span<const Rule> elementwise_rules() { return kRules; }

}  // namespace braid::frontend::sharding
