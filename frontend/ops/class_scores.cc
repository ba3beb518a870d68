#include "frontend/ops/class_scores.h"

#include <array>
#include <limits>
#include <utility>

#include "frontend/ops/constant_input.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// Smaller scores count as 0 in softmax_zero.
constexpr double kSmallestScore = 1e-7;

ValueId is_nonzero(Real x) {
  return x.b->binary(OpCode::lt, literal(x, kSmallestScore).v, x.b->unary(OpCode::abs, x.v));
}

// The part of a score in a softmax, and what it adds to the sum.
std::pair<Real, Real> softmax_term(Real x, Real most, bool skips_zeros) {
  const Real power = apply(OpCode::exp, x - most);
  if (!skips_zeros) return {power, power};
  const ValueId counts = is_nonzero(x);
  return {select(counts, power, x * apply(OpCode::exp, literal(x, 0) - most)),
          select(counts, power, literal(x, 0))};
}

TensorBox softmax_rows(ir::Lowering& l, const TensorBox& scores, bool skips_zeros) {
  l.mark_reuse(scores, 3);
  const TensorBox most = l.reduce(scores, ir::ReduceKind::max, {1}, true);
  l.mark_reuse(most, 2);
  const auto term = [&](bool summed) {
    return l.pointwise({scores, most}, [=](BodyBuilder& b, std::span<const ValueId> v) {
      const auto [part, added] = softmax_term({&b, v[0]}, {&b, v[1]}, skips_zeros);
      return summed ? added.v : part.v;
    });
  };
  return binary(l, OpCode::div, term(false), l.reduce(term(true), ir::ReduceKind::sum, {1}, true));
}

// One comparison after another, which suits few classes.
TensorBox largest_of_few(ir::Lowering& l, const TensorBox& scores, std::int64_t classes) {
  return l.generate({scores.sizes()[0]}, [&](BodyBuilder& b, std::span<const Expr> at) {
    Real most{&b, l.load(b, scores, std::array<Expr, 2>{at[0], 0})};
    ValueId place = b.constant(DType::i64, std::int64_t{0});
    for (std::int64_t k = 1; k < classes; ++k) {
      const Real score{&b, l.load(b, scores, std::array<Expr, 2>{at[0], k})};
      const ValueId larger = most < score;
      most = select(larger, score, most);
      place = b.where(larger, b.constant(DType::i64, k), place);
    }
    return place;
  });
}

}  // namespace

PostTransform post_transform_of(OpContext& c) {
  static constexpr std::array<const char*, 5> kNames = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                                        "PROBIT"};
  if (c.op_type() == "TreeEnsemble") {
    const std::int64_t number = c.int_attribute("post_transform", 0);
    if (number < 0 || number >= static_cast<std::int64_t>(kNames.size()))
      c.fail(errors::kInvalidAttribute,
             fmt::format("attribute 'post_transform' is {}, expected 0 to {}", number, kNames.size() - 1));
    return static_cast<PostTransform>(number);
  }
  const std::string name = c.string_attribute("post_transform", "NONE");
  for (std::size_t k = 0; k < kNames.size(); ++k) {
    if (name == kNames[k]) return static_cast<PostTransform>(k);
  }
  c.fail(errors::kInvalidAttribute, fmt::format("attribute 'post_transform' is '{}', expected one of {}",
                                                name, fmt::join(kNames, ", ")));
}

// Without an exponential that overflows.
Real logistic(Real x) {
  const Real of_size = literal(x, 1) / (apply(OpCode::exp, literal(x, 0) - apply(OpCode::abs, x)) + 1);
  return select(x < literal(x, 0), 1 - of_size, of_size);
}

// In single precision, as everything near 1/2 is noise of the approximation.
Real probit(Real of) {
  constexpr double kA = 0.147, kPi = 3.14159, kSqrt2 = 1.41421356;
  BodyBuilder& b = *of.b;
  const Real x{&b, b.cast(of.v, DType::f32)};
  const Real y = x * 2 - 1, logarithm = apply(OpCode::log, (1 - y) * (y + 1));
  const Real v = logarithm * 0.5 + 2 / (kPi * kA), w = logarithm * (1 / kA);
  const Real size = apply(OpCode::sqrt, apply(OpCode::sqrt, v * v - w) - v);
  const Real result = select(y < literal(y, 0), literal(y, 0) - size, size) * kSqrt2;
  return {&b, b.cast(result.v, b.dtype(of.v))};
}

TensorBox transformed(ir::Lowering& l, TensorBox scores, PostTransform transform) {
  switch (transform) {
    case PostTransform::none:
      return scores;
    case PostTransform::softmax:
      return softmax_rows(l, scores, false);
    case PostTransform::softmax_zero:
      return softmax_rows(l, scores, true);
    case PostTransform::logistic:
    case PostTransform::probit:
      break;
  }
  return l.pointwise({std::move(scores)}, [=](BodyBuilder& b, std::span<const ValueId> v) {
    const Real x{&b, v[0]};
    return (transform == PostTransform::logistic ? logistic(x) : probit(x)).v;
  });
}

std::pair<Real, Real> transformed_pair(Real a, Real b, PostTransform transform) {
  switch (transform) {
    case PostTransform::none:
      return {a, b};
    case PostTransform::logistic:
      return {logistic(a), logistic(b)};
    case PostTransform::probit:
      return {probit(a), probit(b)};
    case PostTransform::softmax:
    case PostTransform::softmax_zero:
      break;
  }
  const bool skips_zeros = transform == PostTransform::softmax_zero;
  const Real most = apply(OpCode::max, a, b);
  const auto [first, first_added] = softmax_term(a, most, skips_zeros);
  const auto [second, second_added] = softmax_term(b, most, skips_zeros);
  const Real sum = first_added + second_added;
  return {first / sum, second / sum};
}

// A NaN is no larger than any score, but the first class stays if nothing is larger than its score.
TensorBox largest_class(ir::Lowering& l, const TensorBox& scores) {
  constexpr std::int64_t kFew = 32;
  if (const Expr count = scores.sizes()[1]; count.is_constant() && count.constant() <= kFew)
    return largest_of_few(l, l.realize(scores), count.constant());
  const double infinity = std::numeric_limits<double>::infinity();
  const TensorBox ranked = l.generate(scores.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    const Real score{&b, l.load(b, scores, at)};
    const ValueId first = b.binary(OpCode::eq, b.index(at[1]), b.constant(DType::i64, std::int64_t{0}));
    const Real missing = select(first, infinity, literal(score, -infinity));
    return select(b.unary(OpCode::is_nan, score.v), missing, score).v;
  });
  l.mark_reuse(ranked, 2);
  const TensorBox most = l.reduce(ranked, ir::ReduceKind::max, {1}, true);
  const Expr classes = scores.sizes()[1];
  const TensorBox positions = l.generate(scores.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    const std::array<Expr, 2> row = {at[0], 0};
    const ValueId found = b.binary(OpCode::eq, l.load(b, ranked, at), l.load(b, most, row));
    return b.where(found, b.index(at[1]), b.index(classes - 1));
  });
  return l.reduce(positions, ir::ReduceKind::min, {1}, false);
}

ClassLabels class_labels(OpContext& c, const char* numbers, const char* strings) {
  const std::vector<std::int64_t> given = c.ints_attribute(numbers).value_or(std::vector<std::int64_t>());
  const std::size_t texts = c.strings_attribute(strings).value_or(std::vector<std::string>()).size();
  if (given.empty() == (texts == 0))
    c.fail(errors::kInvalidAttribute,
           fmt::format("exactly one of the attributes '{}' and '{}' must have labels", numbers, strings));
  if (!given.empty()) return {given, false};
  ClassLabels labels{{}, true};
  for (std::size_t k = 0; k < texts; ++k) labels.numbers.push_back(static_cast<std::int64_t>(k));
  return labels;
}

TensorBox labelled(OpContext& c, const ClassLabels& labels, const TensorBox& index) {
  ir::Lowering& l = c.lowering();
  bool positions = true;
  for (std::size_t k = 0; k < labels.numbers.size(); ++k)
    positions &= labels.numbers[k] == static_cast<std::int64_t>(k);
  if (positions) return index;
  const auto count = static_cast<std::int64_t>(labels.numbers.size());
  Tensor table = integer_tensor(DType::i64, {count}, labels.numbers);
  const TensorBox all = l.constant(c.op_type() + "_labels", DType::i64, {count}, std::move(table.data));
  return l.generate(index.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    const std::array<Expr, 1> place = {b.as_index(l.load(b, index, at))};
    return l.load(b, all, place);
  });
}

TensorBox feature_rows(OpContext& c, DType real) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) != 1 && c.rank(0) != 2)
    c.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected 2 or 1", c.rank(0)));
  const TensorBox x = c.rank(0) == 1 ? l.unsqueeze(c.input(0), 0) : c.input(0);
  return l.cast(x, real);
}

}  // namespace braid::frontend
