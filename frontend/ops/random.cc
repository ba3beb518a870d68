// Random numbers with a seed, from the generator of docs/random-numbers.md. A missing seed is refused, since
// the values would have to differ from run to run.
#include <bit>
#include <cmath>
#include <numbers>

#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

std::uint64_t seed_of(OpContext& c) {
  const float seed = c.float_attribute("seed", std::nanf(""));
  if (std::isnan(seed)) {
    c.fail(
        errors::kUnsupportedForm, "attribute 'seed' is missing: its values would differ from run to run",
        "set the attribute 'seed', compile with --seed N, or make the random numbers an input of the model");
  }
  return std::bit_cast<std::uint32_t>(seed);
}

ValueId unsigned_constant(BodyBuilder& b, std::uint64_t value) {
  return b.constant(DType::u64, static_cast<std::int64_t>(value));
}

// u(j): output j of SplitMix64 in [0, 1).
ValueId unit_random(BodyBuilder& b, std::uint64_t seed, Expr j) {
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
  ValueId z = b.binary(OpCode::add, unsigned_constant(b, seed),
                       b.binary(OpCode::mul, b.index(j + 1, DType::u64), unsigned_constant(b, kStep)));
  const auto mix = [&](std::uint64_t shift) {
    return b.binary(OpCode::bit_xor, z, b.binary(OpCode::shift_right, z, unsigned_constant(b, shift)));
  };
  z = b.binary(OpCode::mul, mix(30), unsigned_constant(b, 0xbf58476d1ce4e5b9));
  z = b.binary(OpCode::mul, mix(27), unsigned_constant(b, 0x94d049bb133111eb));
  z = mix(31);
  const ValueId high = b.binary(OpCode::shift_right, z, unsigned_constant(b, 11));
  return b.binary(OpCode::mul, b.cast(high, DType::f64), b.constant(DType::f64, 0x1p-53));
}

// The row-major number of the element at the index.
Expr position(std::span<const Expr> at, const std::vector<Expr>& sizes) {
  Expr k = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) k = k * sizes[d] + at[d];
  return k;
}

// a + b * x, of numbers
ValueId on_line(BodyBuilder& b, double offset, double factor, ValueId x) {
  return b.binary(OpCode::add, b.constant(DType::f64, offset),
                  b.binary(OpCode::mul, b.constant(DType::f64, factor), x));
}

ValueId uniform(BodyBuilder& b, OpContext& c, std::uint64_t seed, Expr k) {
  const double low = c.float_attribute("low", 0), high = c.float_attribute("high", 1);
  return on_line(b, low, high - low, unit_random(b, seed, k));
}

ValueId normal(BodyBuilder& b, OpContext& c, std::uint64_t seed, Expr k) {
  const ValueId rest = on_line(b, 1, -1, unit_random(b, seed, k * 2));
  const ValueId squared = b.binary(OpCode::mul, b.constant(DType::f64, -2.0), b.unary(OpCode::log, rest));
  const ValueId angle =
      b.binary(OpCode::mul, b.constant(DType::f64, 2 * std::numbers::pi), unit_random(b, seed, k * 2 + 1));
  return on_line(b, c.float_attribute("mean", 0), c.float_attribute("scale", 1),
                 b.binary(OpCode::mul, b.unary(OpCode::sqrt, squared), b.unary(OpCode::cos, angle)));
}

using Distribution = ValueId (*)(BodyBuilder&, OpContext&, std::uint64_t seed, Expr k);

template <Distribution distribution>
void fill_with(OpContext& c, const std::vector<Expr>& sizes, DType dtype) {
  if (!is_float(dtype)) {
    c.fail(errors::kInvalidAttribute,
           fmt::format("the result would be {}, expected a floating-point type", to_string(dtype)),
           "give its type with attribute 'dtype'");
  }
  const std::uint64_t seed = seed_of(c);
  c.set_output(0, c.lowering().generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    return b.cast(distribution(b, c, seed, position(at, sizes)), dtype);
  }));
}

template <Distribution distribution>
void lower(OpContext& c) {
  const auto shape = c.ints_attribute("shape");
  if (!shape) c.fail(errors::kInvalidAttribute, "attribute 'shape' is missing");
  for (const std::int64_t size : *shape) {
    if (size < 0) c.fail(errors::kInvalidAttribute, fmt::format("attribute 'shape' has the size {}", size));
  }
  fill_with<distribution>(c, {shape->begin(), shape->end()}, c.dtype_of(c.int_attribute("dtype", 1)));
}

template <Distribution distribution>
void lower_like(OpContext& c) {
  fill_with<distribution>(c, c.sizes(0),
                          c.has_attribute("dtype") ? c.dtype_of(c.int_attribute("dtype")) : c.dtype(0));
}

// 1 with the probability that the input has.
void lower_bernoulli(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::uint64_t seed = seed_of(c);
  const DType dtype = c.has_attribute("dtype") ? c.dtype_of(c.int_attribute("dtype")) : c.dtype(0);
  const TensorBox x = c.input(0);
  c.set_output(0, l.generate(x.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId probability = b.cast(l.load(b, x, at), DType::f64);
    return b.cast(b.binary(OpCode::lt, unit_random(b, seed, position(at, x.sizes())), probability), dtype);
  }));
}

// Draws classes whose unnormalised log-probabilities are the rows of the input. The result is the first class
// up to which the sum of the probabilities exceeds u times the sum of all.
void lower_multinomial(OpContext& c) {
  using ir::ReduceKind;
  ir::Lowering& l = c.lowering();
  const std::uint64_t seed = seed_of(c);
  const std::int64_t samples = c.int_attribute("sample_size", 1);
  if (samples < 1)
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'sample_size' is {}, expected at least 1", samples));
  const DType dtype = c.dtype_of(c.int_attribute("dtype", 6));
  if (dtype != DType::i32 && dtype != DType::i64)
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'dtype' is {}, expected int32 or int64", to_string(dtype)));
  if (c.rank(0) != 2)
    c.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected a matrix", c.rank(0)));
  const TensorBox x = l.cast(c.input(0), DType::f64);
  l.mark_reuse(x, 2);
  const Expr batch = x.sizes()[0], classes = x.sizes()[1];
  const TensorBox weights =
      l.realize(unary(l, OpCode::exp, binary(l, OpCode::sub, x, l.reduce(x, ReduceKind::max, {1}, true))));
  const std::vector<Expr> rows = {batch, classes, 1};
  const TensorBox sums = l.reshape(
      l.extern_call(
          "cumulative", {l.reshape(weights, rows)}, {{DType::f64, rows}},
          {{"exclusive", std::int64_t{0}}, {"product", std::int64_t{0}}, {"reverse", std::int64_t{0}}})[0],
      {batch, classes});
  const TensorBox passed =
      l.generate({batch, samples, classes}, [&](BodyBuilder& b, std::span<const Expr> at) {
        const std::vector<Expr> here{at[0], at[2]}, last{at[0], classes - 1};
        const ValueId u = unit_random(b, seed, at[0] * samples + at[1]);
        const ValueId wanted = b.binary(OpCode::mul, u, l.load(b, sums, last));
        return b.cast(b.binary(OpCode::le, l.load(b, sums, here), wanted), DType::i64);
      });
  const TensorBox found = l.reduce(passed, ReduceKind::sum, {2}, false);
  c.set_output(0, l.pointwise({found}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return b.cast(b.binary(OpCode::min, v[0], b.index(classes - 1)), dtype);
  }));
}

constexpr const char* kRandom =
    "random numbers are drawn for the whole tensor, so that all ranks draw the same";

}  // namespace

std::span<const OpSpec> random_ops() {
  static const OpSpec ops[] = {
      {"", "Bernoulli", 15, kNewestOpset, kFloats, lower_bernoulli, work::pointwise(16),
       sharding::replicated(kRandom), kNoState, kNoSizes},
      {"", "Multinomial", 7, kNewestOpset, kFloats, lower_multinomial, work::draws(),
       sharding::replicated(kRandom), kNoState, kNoSizes},
      {"", "RandomNormal", 1, kNewestOpset, kFloats, lower<normal>, work::pointwise(65),
       sharding::replicated(kRandom), kNoState, kNoSizes},
      {"", "RandomNormalLike", 1, kNewestOpset, kAllTypes, lower_like<normal>, work::pointwise(65),
       sharding::replicated(kRandom), kNoState, kNoSizes},
      {"", "RandomUniform", 1, kNewestOpset, kFloats, lower<uniform>, work::pointwise(17),
       sharding::replicated(kRandom), kNoState, kNoSizes},
      {"", "RandomUniformLike", 1, kNewestOpset, kAllTypes, lower_like<uniform>, work::pointwise(17),
       sharding::replicated(kRandom), kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
