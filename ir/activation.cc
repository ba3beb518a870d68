#include "ir/activation.h"

#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <utility>
#include <vector>

#include "ir/element.h"
#include "ir/formula.h"

namespace braid::ir {

namespace {

// Values that a formula is made of; exported GELUs have up to 40, with a conversion at each step.
constexpr std::size_t kLongestFormula = 128;

// GELU's tanh form: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
const double kRootTwoOverPi = std::sqrt(2 / std::numbers::pi);
constexpr double kCubic = 0.044715;

// The constants of activations that a half type cannot hold. If the result has that type, a constant that
// rounds like one of these counts as that one.
const std::array<double, 7> kConstants = {
    std::numbers::sqrt2, 1 / std::numbers::sqrt2,   kRootTwoOverPi, kCubic, kRootTwoOverPi* kCubic,
    2 * kRootTwoOverPi,  2 * kRootTwoOverPi* kCubic};

double exact_constant(const Instr& instr, DType result) {
  const double literal = std::holds_alternative<double>(instr.literal)
                             ? std::get<double>(instr.literal)
                             : static_cast<double>(std::get<std::int64_t>(instr.literal));
  const double value = is_float(instr.dtype) ? round_to(instr.dtype, literal) : literal;
  if (size_of(result) != 2) return value;
  for (double constant : kConstants) {
    if (std::fabs(value) == round_to(result, constant)) return std::copysign(constant, value);
  }
  return value;
}

bool compares(OpCode code) {
  return code == OpCode::lt || code == OpCode::le || code == OpCode::gt || code == OpCode::ge;
}

Formula raised(FormulaAlgebra& f, const Formula& base, const Formula& exponent) {
  const std::optional<double> n = exponent.as_constant();
  if (!n || *n != std::floor(*n)) return Formula::unknown();
  return f.power(base, static_cast<int>(*n));
}

Formula square_root(FormulaAlgebra& f, const Formula& p) {
  const std::optional<double> value = p.as_constant();
  return value && *value > 0 ? f.constant(std::sqrt(*value)) : Formula::unknown();
}

// A comparison with NaN is false and takes the second value, which then has to be NaN, too. Constants are
// never NaN, so a formula in which x only chooses between two of them is no activation.
Formula selected(FormulaAlgebra& f, OpCode condition, const Formula& chosen, const Formula& yes,
                 const Formula& no) {
  if (!compares(condition) || (no.as_constant() && !yes.as_constant())) return Formula::unknown();
  return f.add(no, f.multiply(f.subtract(yes, no), chosen));
}

Formula formula_of(FormulaAlgebra& f, const LoopBody& body, const Instr& instr,
                   const std::map<std::size_t, Formula>& values, DType result) {
  const auto at = [&](std::size_t k) -> const Formula& {
    return values.at(static_cast<std::size_t>(instr.operands[k].index));
  };
  switch (instr.code) {
    case OpCode::constant:
      return f.constant(exact_constant(instr, result));
    case OpCode::cast:
      return at(0);
    case OpCode::neg:
      return f.scale(at(0), -1);
    case OpCode::abs:
      return f.abs(at(0));
    case OpCode::exp:
      return f.exp(at(0));
    case OpCode::sqrt:
      return square_root(f, at(0));
    case OpCode::rsqrt:
      return f.reciprocal(square_root(f, at(0)));
    case OpCode::reciprocal:
      return f.reciprocal(at(0));
    case OpCode::erf:
      return f.erf(at(0));
    case OpCode::tanh:
      return f.tanh(at(0));
    case OpCode::sigmoid:
      return f.sigmoid(at(0));
    case OpCode::add:
      return f.add(at(0), at(1));
    case OpCode::sub:
      return f.subtract(at(0), at(1));
    case OpCode::mul:
      return f.multiply(at(0), at(1));
    case OpCode::div:
      return f.multiply(at(0), f.reciprocal(at(1)));
    case OpCode::pow:
      return raised(f, at(0), at(1));
    case OpCode::min:
      return f.min(at(0), at(1));
    case OpCode::max:
      return f.max(at(0), at(1));
    case OpCode::gt:
      return f.is_positive(f.subtract(at(0), at(1)));
    case OpCode::ge:
      return f.is_not_negative(f.subtract(at(0), at(1)));
    case OpCode::lt:
      return f.is_positive(f.subtract(at(1), at(0)));
    case OpCode::le:
      return f.is_not_negative(f.subtract(at(1), at(0)));
    case OpCode::where:
      return selected(f, body[instr.operands[0]].code, at(0), at(1), at(2));
    default:  // an op without a formula: no activation is recognised after it
      return Formula::unknown();
  }
}

Formula half_of_one_plus(FormulaAlgebra& f, const Formula& p) {
  return f.scale(f.add(f.constant(1), p), 0.5);
}

std::vector<std::pair<PostOp::Kind, Formula>> definitions(FormulaAlgebra& f) {
  const Formula x = f.variable();
  const Formula bent = f.scale(f.add(x, f.scale(f.power(x, 3), kCubic)), kRootTwoOverPi);
  std::vector<std::pair<PostOp::Kind, Formula>> all = {
      {PostOp::Kind::identity, x},
      {PostOp::Kind::relu, f.multiply(x, f.is_positive(x))},
      {PostOp::Kind::relu, f.multiply(x, f.is_not_negative(x))},
      {PostOp::Kind::gelu_tanh, f.multiply(x, half_of_one_plus(f, f.tanh(bent)))},
      {PostOp::Kind::gelu_erf,
       f.multiply(x, half_of_one_plus(f, f.erf(f.scale(x, 1 / std::numbers::sqrt2))))},
      {PostOp::Kind::tanh, f.tanh(x)},
      {PostOp::Kind::sigmoid, f.sigmoid(x)},
      {PostOp::Kind::swish, f.multiply(x, f.sigmoid(x))},
  };
  // From below first or from above: equal values, but two formulas.
  const auto limited = [&](const Formula& p, double high, bool below_first) {
    const Formula low = f.constant(0), top = f.constant(high);
    return below_first ? f.min(f.max(p, low), top) : f.max(f.min(p, top), low);
  };
  const Formula sixths = f.add(f.scale(x, 1.0 / 6), f.constant(0.5));
  for (const bool below_first : {true, false}) {
    all.emplace_back(PostOp::Kind::relu6, limited(x, 6, below_first));
    all.emplace_back(PostOp::Kind::hard_swish,
                     f.multiply(x, f.scale(limited(f.add(x, f.constant(3)), 6, below_first), 1.0 / 6)));
    all.emplace_back(PostOp::Kind::hard_swish, f.multiply(x, limited(sixths, 1, below_first)));
  }
  return all;
}

}  // namespace

bool holds(DType dtype, DType result) {
  return is_float(dtype) && (dtype == result || size_of(dtype) > size_of(result));
}

std::optional<PostOp::Kind> activation_between(const LoopBody& body, std::size_t from, std::size_t to,
                                               DType result) {
  // Only the operands of `to` are examined, and no more of them than an activation can need.
  std::set<std::size_t> needed{to};
  for (auto k = needed.rbegin(); k != needed.rend() && needed.size() <= kLongestFormula; ++k) {
    if (*k == from) continue;
    for (ValueId o : body.instrs[*k].operands) needed.insert(static_cast<std::size_t>(o.index));
  }
  if (needed.size() > kLongestFormula) return std::nullopt;
  FormulaAlgebra f;
  std::map<std::size_t, Formula> values;
  for (std::size_t k : needed) {
    const Instr& instr = body.instrs[k];
    if (k == from)
      values[k] = f.variable();
    else if (holds(instr.dtype, result) || compares(instr.code) || instr.code == OpCode::constant)
      values[k] = formula_of(f, body, instr, values, result);
    else
      values[k] = Formula::unknown();
  }
  for (const auto& [activation, formula] : definitions(f)) {
    if (f.same(values.at(to), formula)) return activation;
  }
  return std::nullopt;
}

}  // namespace braid::ir
