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
  c.fail_unknown(1, errors::kDataDependentSize, "the limit is no quotient of sizes", "make it a constant");
}

TensorBox scalar_of(OpContext& c, int k) {
  if (!ir::product(c.sizes(k)).is_constant(1))
    c.fail(errors::kShapeMismatch, fmt::format("input {} has more than one element", k));
  return c.lowering().reshape(c.input(k), {});
}

// The number of elements as an i64 scalar: max(ceil((limit - start) / delta), 0).
TensorBox measured_count(OpContext& c) {
  const std::vector<TensorBox> inputs = {scalar_of(c, 0), scalar_of(c, 1), scalar_of(c, 2)};
  const DType dtype = c.dtype(0);
  return c.lowering().pointwise(inputs, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const ValueId zero = b.constant_of(DType::i64, 0);
    if (is_float(dtype)) {
      const auto wide = [&](ValueId x) { return b.cast(x, DType::f64); };
      const ValueId length = b.binary(OpCode::sub, v[1], v[0]);
      const ValueId count = b.unary(OpCode::ceil, b.binary(OpCode::div, wide(length), wide(v[2])));
      // Not a number is no element; what exceeds every capacity stays an integer.
      constexpr double kMost = 1e15;
      const ValueId most = b.constant_of(DType::f64, kMost), none = b.constant_of(DType::f64, 0);
      const ValueId some = b.binary(OpCode::gt, count, none);
      return b.cast(b.where(some, b.binary(OpCode::min, count, most), none), DType::i64);
    }
    const auto wide = [&](ValueId x) { return b.cast(x, DType::i64); };
    const ValueId delta = wide(v[2]), length = b.binary(OpCode::sub, wide(v[1]), wide(v[0]));
    const ValueId is_zero = b.binary(OpCode::eq, delta, zero);
    const ValueId divisor = b.where(is_zero, b.constant_of(DType::i64, 1), delta);
    const ValueId whole = b.binary(OpCode::div, length, divisor),
                  rest = b.binary(OpCode::fmod, length, divisor);
    // The quotient is rounded towards 0; with a remainder of the sign of delta it is less than the ratio.
    const ValueId more =
        b.binary(OpCode::gt, b.binary(OpCode::bit_xor, rest, delta), b.constant_of(DType::i64, -1));
    const ValueId rounded = b.binary(OpCode::logical_and, b.binary(OpCode::ne, rest, zero), more);
    const ValueId count = b.binary(OpCode::add, whole, wide(rounded));
    // A delta of 0 and a length that overflows exceed every capacity.
    const ValueId up = b.binary(OpCode::gt, wide(v[1]), wide(v[0])),
                  positive = b.binary(OpCode::gt, length, zero);
    const ValueId overflows = b.binary(OpCode::logical_xor, up, positive);
    constexpr double kTooMany = 1e15;
    return b.where(b.binary(OpCode::logical_or, is_zero, overflows), b.constant_of(DType::i64, kTooMany),
                   b.binary(OpCode::max, count, zero));
  });
}

// A range of which only a run tells input `unknown`: start, limit or delta.
void lower_measured_range(OpContext& c, int unknown) {
  const Expr count = c.measured_size(unknown, "the number of elements", c.output_name(0), std::nullopt,
                                     [&] { return measured_count(c); });
  const TensorBox start = scalar_of(c, 0), delta = scalar_of(c, 2);
  const DType dtype = c.dtype(0);
  ir::Lowering& l = c.lowering();
  c.set_output(0, l.generate({count}, [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId offset = b.binary(OpCode::mul, b.cast(b.index(at[0]), dtype), l.load(b, delta, {}));
    return b.binary(OpCode::add, l.load(b, start, {}), offset);
  }));
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
  const auto unknown = [&](int k) {
    return is_float(c.dtype(0)) ? !c.constant_scalar(k) && !fractions_of(c.value(k)) : !c.knows(k);
  };
  if (unknown(0) || unknown(1) || unknown(2))
    return lower_measured_range(c, unknown(0) ? 0 : unknown(1) ? 1 : 2);
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
