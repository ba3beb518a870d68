// Range: start, start + delta, ... below limit. The number of elements must be known while compiling.
#include <algorithm>
#include <cmath>

#include "frontend/ops/common.h"
#include "frontend/shape_rules.h"
#include "frontend/size_fractions.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// The number of elements, where the limit may be computed from sizes.
Expr float_range_count(OpContext& c, double start, double delta) {
  if (const std::optional<double> limit = c.constant_scalar(1)) {
    const double count = std::max(std::ceil((*limit - start) / delta), 0.0);
    if (!(count < 9e18)) c.fail(errors::kSizeOverflow, "the range has too many elements");
    return static_cast<std::int64_t>(count);
  }
  const std::optional<Fractions> begin = fractions_of(c.value(0)), end = fractions_of(c.value(1)),
                                 step = fractions_of(c.value(2));
  if (begin && end && step && end->values.size() == 1) {
    const DType dtype = c.dtype(0);
    const std::optional<Fraction> length = difference(end->values[0], begin->values[0], dtype);
    if (const auto count = length ? quotient(*length, step->values[0], dtype) : std::nullopt)
      return ir::max(rounded_up(*count), 0);
  }
  c.fail_unknown(1, errors::kDataDependentSize, "the limit is known only at run time", "make it a constant");
}

void lower_float_range(OpContext& c) {
  const auto constant = [&](int k, const char* what) {
    const std::optional<double> value = c.constant_scalar(k);
    if (!value) {
      c.fail_unknown(k, errors::kDataDependentSize, fmt::format("{} is known only at run time", what),
                     "make it a constant");
    }
    return *value;
  };
  const double start = constant(0, "the start"), delta = constant(2, "the delta");
  if (delta == 0) c.fail(errors::kInvalidNode, "delta is 0");
  const Expr count = float_range_count(c, start, delta);
  const DType dtype = c.dtype(0);
  c.set_output(0, c.lowering().generate({count}, [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId offset = b.binary(OpCode::mul, b.cast(b.index(at[0]), dtype), b.constant_of(dtype, delta));
    return b.binary(OpCode::add, b.constant_of(dtype, start), offset);
  }));
}

void lower_range(OpContext& c) {
  if (is_float(c.dtype(0))) return lower_float_range(c);
  const auto scalar = [&](int k, const char* what) {
    const std::vector<Expr> values = c.positions(k, what);
    if (values.size() != 1)
      c.fail(errors::kShapeMismatch, fmt::format("{} has {} elements, expected one", what, values.size()));
    return values[0];
  };
  const Expr start = scalar(0, "the start"), limit = scalar(1, "the limit"), delta = scalar(2, "the delta");
  if (!delta.is_constant())
    c.fail(errors::kDataDependentSize, fmt::format("the delta {} depends on a dimension", to_string(delta)));
  const Expr count = range_count(start, limit, delta.constant());
  const DType dtype = c.dtype(0);
  c.set_output(0, c.lowering().generate({count}, [&](BodyBuilder& b, std::span<const Expr> at) {
    return b.index(start + at[0] * delta, dtype);
  }));
}

}  // namespace

std::span<const OpSpec> range_ops() {
  static const OpSpec ops[] = {
      {"", "Range", 11, kNewestOpset, kFloats | kSigned, lower_range, work::pointwise(0), rule::kTable,
       kNoState, size_rule::kRange},
  };
  return ops;
}

}  // namespace braid::frontend
