#include "frontend/size_fractions.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "frontend/shape_values.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using ir::DType;
using ir::Expr;
using Result = std::optional<Fraction>;

constexpr std::int64_t kMaxFractions = 64;

// Integers of smaller magnitude are exact in the type.
std::int64_t exact_integers(DType dtype) { return std::int64_t{1} << (dtype == DType::f64 ? 53 : 24); }

bool followed(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

bool is_power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

// Whether the value is not rounded.
bool is_exact(const Fraction& f) { return is_power_of_two(f.denominator); }

Result reduced(Expr numerator, std::int64_t denominator, DType dtype) {
  if (denominator <= 0 || denominator >= exact_integers(DType::f32)) return std::nullopt;
  if (const std::optional<Expr> whole = ir::divide_exactly(numerator, denominator)) {
    numerator = *whole;
    denominator = 1;
  }
  while (denominator % 2 == 0) {
    const std::optional<Expr> half = ir::divide_exactly(numerator, 2);
    if (!half) break;
    numerator = *half;
    denominator /= 2;
  }
  const ir::Bounds range = ir::bounds(numerator);
  const std::int64_t limit = exact_integers(dtype);
  if (range.min <= -limit || range.max >= limit) return std::nullopt;
  return Fraction{numerator, denominator};
}

// Both denominators are below 2^24.
Result sum(const Fraction& a, const Fraction& b, int sign, DType dtype) {
  if (!is_exact(a) || !is_exact(b)) return std::nullopt;
  const std::int64_t common = std::max(a.denominator, b.denominator);
  return reduced(a.numerator * (common / a.denominator) + sign * (b.numerator * (common / b.denominator)),
                 common, dtype);
}

Result product(const Fraction& a, const Fraction& b, DType dtype) {
  if (!is_exact(a) || !is_exact(b)) return std::nullopt;
  return reduced(a.numerator * b.numerator, a.denominator * b.denominator, dtype);
}

// The number as an integer over a power of two.
Result fraction_of(double number, DType dtype) {
  std::int64_t denominator = 1;
  while (number != std::floor(number) && denominator < exact_integers(DType::f32)) {
    number *= 2;
    denominator *= 2;
  }
  if (!(std::abs(number) < static_cast<double>(exact_integers(dtype)))) return std::nullopt;
  return reduced(static_cast<std::int64_t>(number), denominator, dtype);
}

std::optional<Fractions> cast_to(OpContext& c, DType to) {
  if (!followed(to)) return std::nullopt;
  Fractions result;
  if (ir::is_float(c.dtype(0))) {
    const std::optional<Fractions> from = fractions_of(c.value(0));
    if (!from) return std::nullopt;
    result.sizes = from->sizes;
    for (const Fraction& f : from->values) {
      const Result kept = is_exact(f) ? reduced(f.numerator, f.denominator, to) : std::nullopt;
      if (!kept) return std::nullopt;
      result.values.push_back(*kept);
    }
    return result;
  }
  const std::optional<Elements>& from = elements_of(c.value(0));
  if (!from || static_cast<std::int64_t>(from->values.size()) > kMaxFractions) return std::nullopt;
  result.sizes = from->sizes;
  for (const Expr& e : from->values) {
    const Result f = reduced(e, 1, to);
    if (!f) return std::nullopt;
    result.values.push_back(*f);
  }
  return result;
}

// Elements of one input, or of two where one is a single number or both have the same sizes.
std::optional<Fractions> elementwise(OpContext& c,
                                     const std::function<Result(const Fraction&, const Fraction&)>& f) {
  const std::optional<Fractions> a = fractions_of(c.value(0)), b = fractions_of(c.value(c.input_count() - 1));
  if (!a || !b || c.input_count() > 2) return std::nullopt;
  const bool one = b->values.size() == 1 && b->sizes.size() <= a->sizes.size();
  const bool other = a->values.size() == 1 && a->sizes.size() <= b->sizes.size();
  if (!one && !other && a->sizes != b->sizes) return std::nullopt;
  Fractions result{one ? a->sizes : b->sizes, {}};
  for (std::size_t k = 0; k < std::max(a->values.size(), b->values.size()); ++k) {
    const Result value =
        f(a->values[a->values.size() == 1 ? 0 : k], b->values[b->values.size() == 1 ? 0 : k]);
    if (!value) return std::nullopt;
    result.values.push_back(*value);
  }
  return result;
}

}  // namespace

namespace fractions {

std::optional<Fractions> add(OpContext& c) {
  return elementwise(c, [&](const auto& a, const auto& b) { return sum(a, b, 1, c.dtype(0)); });
}
std::optional<Fractions> subtract(OpContext& c) {
  return elementwise(c, [&](const auto& a, const auto& b) { return difference(a, b, c.dtype(0)); });
}
std::optional<Fractions> multiply(OpContext& c) {
  return elementwise(c, [&](const auto& a, const auto& b) { return product(a, b, c.dtype(0)); });
}
std::optional<Fractions> divide(OpContext& c) {
  return elementwise(c, [&](const auto& a, const auto& b) { return quotient(a, b, c.dtype(0)); });
}
std::optional<Fractions> ceil(OpContext& c) {
  return elementwise(c, [&](const auto& a, const auto&) { return reduced(rounded_up(a), 1, c.dtype(0)); });
}
std::optional<Fractions> floor(OpContext& c) {
  return elementwise(c, [&](const auto& a, const auto&) {
    return reduced(ir::floor_div(a.numerator, a.denominator), 1, c.dtype(0));
  });
}
std::optional<Fractions> cast(OpContext& c) { return cast_to(c, c.dtype_of(c.int_attribute("to"))); }
std::optional<Fractions> cast_like(OpContext& c) { return cast_to(c, c.dtype(1)); }

// The same elements in the sizes of the output, which are numbers.
std::optional<Fractions> reshaped(OpContext& c) {
  std::optional<Fractions> result = fractions_of(c.value(0));
  if (!result || !c.outputs()[0].valid()) return std::nullopt;
  result->sizes.clear();
  for (const Expr& size : c.outputs()[0].sizes()) {
    if (!size.is_constant()) return std::nullopt;
    result->sizes.push_back(size.constant());
  }
  return result;
}

std::optional<Fractions> concat(OpContext& c) {
  Fractions result{{0}, {}};
  for (int k = 0; k < c.input_count(); ++k) {
    const std::optional<Fractions> part = fractions_of(c.value(k));
    if (!part || part->sizes.size() != 1) return std::nullopt;
    result.values.insert(result.values.end(), part->values.begin(), part->values.end());
  }
  result.sizes[0] = static_cast<std::int64_t>(result.values.size());
  return result;
}

}  // namespace fractions

std::optional<Fractions> fractions_of(Value& value) {
  if (value.fractions || !value.constant || !followed(value.dtype)) return value.fractions;
  const Tensor& tensor = *value.constant;
  if (!tensor.data.same_on_all_ranks() || tensor.count() > kMaxFractions) return std::nullopt;
  Fractions result{tensor.sizes, {}};
  for (std::int64_t k = 0; k < tensor.count(); ++k) {
    const Result f = fraction_of(float_at(tensor, k), value.dtype);
    if (!f) return std::nullopt;
    result.values.push_back(*f);
  }
  return result;
}

std::optional<Fractions> size_fractions(OpContext& context, const SizeRule& rule) {
  if (rule.fractions == nullptr) return std::nullopt;
  bool from_sizes = false;
  for (int k = 0; k < context.input_count(); ++k) {
    if (!context.has_input(k)) return std::nullopt;
    from_sizes |= context.value(k).fractions || context.value(k).elements;
  }
  if (!from_sizes) return std::nullopt;
  try {
    return rule.fractions(context);
  } catch (const ir::UserError& error) {  // as in shape_values
    if (error.code() != errors::kSizeOverflow && error.code() != errors::kSizeTooLong) throw;
    return std::nullopt;
  }
}

Expr rounded_up(const Fraction& fraction) { return ir::ceil_div(fraction.numerator, fraction.denominator); }

std::optional<Expr> truncated(const Fraction& fraction) {
  if (fraction.denominator == 1) return fraction.numerator;
  if (!ir::provably_non_negative(fraction.numerator)) return std::nullopt;
  return ir::floor_div(fraction.numerator, fraction.denominator);
}

Result difference(const Fraction& a, const Fraction& b, DType dtype) { return sum(a, b, -1, dtype); }

Result quotient(const Fraction& a, const Fraction& b, DType dtype) {
  if (!is_exact(a) || !is_exact(b) || !b.numerator.is_constant() || b.numerator.is_constant(0))
    return std::nullopt;
  const std::int64_t divisor = b.numerator.constant();
  return reduced(a.numerator * (divisor > 0 ? b.denominator : -b.denominator),
                 a.denominator * std::abs(divisor), dtype);
}

}  // namespace braid::frontend
