#include "frontend/ops/resample.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "frontend/ops/constant_input.h"
#include "frontend/ops/real.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// ---- coordinates, for numbers and for values of a loop

double select(bool condition, double a, double b) { return condition ? a : b; }

// Returns the position of element x of the result in the input, by ONNX's formulas and in its order of
// operations, since roundings decide ties. `in` is the size of the input, `out` that of the result.
template <class Number>
Number source_of(const std::string& mode, const ResizeAxis& axis, Number x, Number in, Number out,
                 Number scale) {
  const Number width = scale * in;  // of the result, before it was made an integer
  if (mode == "align_corners") return select(width == 1.0, 0.0, x * (in - 1.0) / (width - 1.0));
  if (mode == "asymmetric") return x / scale;
  // An axis that keeps its size, which may be known at run time only, keeps its elements; other modes do that
  // anyway.
  if (mode == "tf_half_pixel_for_nn") return select(scale == 1.0, x, (x + 0.5) / scale);
  if (mode == "tf_crop_and_resize") {
    const double extent = axis.roi_end - axis.roi_start;
    const Number from_start =
        select(width == 1.0, (in - 1.0) * extent / 2.0, x * extent * (in - 1.0) / (width - 1.0));
    return from_start + (in - 1.0) * axis.roi_start;
  }
  if (mode == "pytorch_half_pixel") return select(width == 1.0, -0.5, (x + 0.5) / scale - 0.5);
  if (mode == "half_pixel_symmetric") {
    const Number offset = in / 2.0 * (1.0 - out / width);
    return offset + (x + 0.5) / scale - 0.5;
  }
  return (x + 0.5) / scale - 0.5;  // half_pixel
}

double source_of(const ResizeOptions& o, const ResizeAxis& axis, std::int64_t x) {
  return source_of<double>(o.coordinates, axis, static_cast<double>(x),
                           static_cast<double>(axis.in.constant()), static_cast<double>(axis.out.constant()),
                           axis.known_scale());
}

Real source_of(const ResizeOptions& o, const ResizeAxis& axis, BodyBuilder& b, Expr x) {
  const Real in = real(b, axis.in), out = real(b, axis.out);
  const Real scale = axis.scale ? literal(in, *axis.scale) : out / in;
  return source_of<Real>(o.coordinates, axis, real(b, x), in, out, scale);
}

// ---- the nearest element

double nearest(const ResizeOptions& o, const ResizeAxis& axis, double x) {
  if (o.nearest_mode == "simple") return axis.known_scale() < 1 ? std::ceil(x) : std::floor(x);
  if (o.nearest_mode == "floor") return std::floor(x);
  if (o.nearest_mode == "ceil") return std::ceil(x);
  return o.nearest_mode == "round_prefer_ceil" ? std::floor(x + 0.5) : std::ceil(x - 0.5);
}

Real nearest(const ResizeOptions& o, const ResizeAxis& axis, Real x) {
  if (o.nearest_mode == "simple") {
    const ValueId shrinks = axis.scale ? x.b->constant(DType::boolean, std::int64_t{*axis.scale < 1})
                                       : x.b->binary(OpCode::lt, x.b->index(axis.out), x.b->index(axis.in));
    return select(shrinks, apply(OpCode::ceil, x), apply(OpCode::floor, x));
  }
  if (o.nearest_mode == "floor") return apply(OpCode::floor, x);
  if (o.nearest_mode == "ceil") return apply(OpCode::ceil, x);
  return o.nearest_mode == "round_prefer_ceil" ? apply(OpCode::floor, x + 0.5) : apply(OpCode::ceil, x - 0.5);
}

// Tables of positions are made while compiling; longer axes compute theirs in the loop.
constexpr std::int64_t kLongestTable = std::int64_t{1} << 16;

bool has_table(const ResizeAxis& axis) { return axis.is_static() && axis.out.constant() <= kLongestTable; }

std::vector<std::int64_t> nearest_table(const ResizeOptions& o, const ResizeAxis& axis) {
  std::vector<std::int64_t> table;
  const double last = static_cast<double>(axis.in.constant() - 1);
  for (std::int64_t k = 0; k < axis.out.constant(); ++k) {
    const double at = nearest(o, axis, source_of(o, axis, k));
    table.push_back(static_cast<std::int64_t>(std::clamp(at, 0.0, last)));
  }
  return table;
}

// Returns the whole number by which an axis grows, if the nearest element is then that of a plain division
// for any size.
std::optional<std::int64_t> plain_factor(const ResizeOptions& o, const ResizeAxis& axis) {
  std::optional<double> scale = axis.scale;
  if (!scale) {
    const std::optional<Expr> exact = ir::divide_exactly(axis.out, axis.in);
    if (!exact || !exact->is_constant()) return std::nullopt;
    scale = static_cast<double>(exact->constant());
  }
  constexpr double kLargest = 64;
  if (*scale != std::floor(*scale) || *scale < 1 || *scale > kLargest) return std::nullopt;
  const bool independent_of_size = o.coordinates == "asymmetric" || o.coordinates == "half_pixel" ||
                                   o.coordinates == "half_pixel_symmetric";
  if (!independent_of_size) return std::nullopt;
  // The fraction of a coordinate repeats with the factor, so a few periods decide.
  const auto factor = static_cast<std::int64_t>(*scale);
  const ResizeAxis sample{axis.index, 8, 8 * factor, scale};
  const std::vector<std::int64_t> table = nearest_table(o, sample);
  for (std::size_t k = 0; k < table.size(); ++k) {
    if (table[k] != static_cast<std::int64_t>(k) / factor) return std::nullopt;
  }
  return factor;
}

// The position that element `at` of the result takes.
using Position = std::function<Expr(BodyBuilder&, Expr at)>;

Position nearest_position(OpContext& c, const ResizeOptions& o, const ResizeAxis& axis) {
  if (const std::optional<std::int64_t> factor = plain_factor(o, axis))
    return [factor](BodyBuilder&, Expr at) { return ir::floor_div(at, *factor); };
  if (axis.out.is_constant(0)) return [](BodyBuilder&, Expr at) { return at; };
  if (!has_table(axis)) {
    return [o, axis](BodyBuilder& b, Expr at) {
      return clamped_index(nearest(o, axis, source_of(o, axis, b, at)), axis.in);
    };
  }
  const std::vector<std::int64_t> table = nearest_table(o, axis);
  const std::int64_t common = std::gcd(axis.in.constant(), axis.out.constant());
  const std::int64_t p = axis.in.constant() / common, q = axis.out.constant() / common;
  bool divides = true;
  for (std::size_t k = 0; k < table.size(); ++k) divides &= table[k] == static_cast<std::int64_t>(k) * p / q;
  if (divides) return [p, q](BodyBuilder&, Expr at) { return ir::floor_div(at * p, q); };
  const TensorBox positions = constant_table(c, "resize_positions", DType::i64, {axis.out.constant()},
                                             std::vector<double>(table.begin(), table.end()));
  return [&l = c.lowering(), positions](BodyBuilder& b, Expr at) {
    return b.as_index(l.load(b, positions, std::vector<Expr>{at}));
  };
}

// ---- weighted sums

// The taps of one axis: `count` neighbours from `first` relative to the last element before the coordinate.
struct Taps {
  std::int64_t first, count;
};

double stretch(const ResizeOptions& o, double scale) { return o.antialias ? std::min(scale, 1.0) : 1.0; }

Taps taps_of(const ResizeOptions& o, double scale) {
  const double reach = o.mode == ResizeMode::linear ? 1 : 2;
  const auto first = static_cast<std::int64_t>(std::floor(-reach / stretch(o, scale))) + 1;
  return {first, 2 - 2 * first};
}

double kernel(const ResizeOptions& o, double x) {
  x = std::abs(x);
  const double a = o.cubic_a;
  if (o.mode == ResizeMode::linear) return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}
Real kernel(const ResizeOptions& o, Real x) {
  x = apply(OpCode::abs, x);
  const double a = o.cubic_a;
  if (o.mode == ResizeMode::linear) return apply(OpCode::max, literal(x, 0), 1.0 - x);
  const Real near = (x * (a + 2) - (a + 3)) * x * x + 1.0;
  const Real far = ((x * a - 5 * a) * x + 8 * a) * x - 4 * a;
  return select(x <= literal(x, 1), near, select(x < literal(x, 2), far, literal(x, 0)));
}

// The elements that one axis reads: position and weight for element `at` of the result and tap k. `at` counts
// along the axis, k may be an index of the loop.
struct Sampling {
  std::int64_t count;  // taps
  std::function<Expr(BodyBuilder&, Expr at, Expr k)> position;
  std::function<ValueId(BodyBuilder&, Expr at, Expr k)> weight;  // of the type computed in
};

struct Row {
  std::vector<double> positions, weights;
};

Row sampled(const ResizeOptions& o, const ResizeAxis& axis, Taps taps, std::int64_t at) {
  const double x = source_of(o, axis, at), before = std::ceil(x) - 1;
  const double last = static_cast<double>(axis.in.constant() - 1);
  Row row;
  const auto normalise = [&] {
    const double sum = std::accumulate(row.weights.begin(), row.weights.end(), 0.0);
    if (sum == 0) return;
    for (double& w : row.weights) w /= sum;
  };
  for (std::int64_t k = 0; k < taps.count; ++k) {
    const double tap = before + static_cast<double>(taps.first + k);
    row.weights.push_back(kernel(o, (tap - x) * stretch(o, axis.known_scale())));
    row.positions.push_back(tap);
  }
  if (o.antialias) normalise();
  if (o.exclude_outside) {
    for (std::size_t k = 0; k < row.weights.size(); ++k) {
      if (row.positions[k] < 0 || row.positions[k] > last) row.weights[k] = 0;
    }
    normalise();
  }
  for (double& p : row.positions) p = std::clamp(p, 0.0, last);
  return row;
}

Sampling static_sampling(OpContext& c, const ResizeOptions& o, const ResizeAxis& axis, DType compute) {
  const Taps taps = taps_of(o, axis.known_scale());
  constexpr std::int64_t kLargestTable = std::int64_t{1} << 22;
  if (taps.count > kLargestTable / std::max<std::int64_t>(axis.out.constant(), 1)) {
    c.fail(errors::kUnsupportedForm, fmt::format("antialiasing of axis {} takes {} elements for each of {}",
                                                 axis.index, taps.count, axis.out.constant()));
  }
  Row all;
  for (std::int64_t at = 0; at < axis.out.constant(); ++at) {
    const Row row = sampled(o, axis, taps, at);
    all.positions.insert(all.positions.end(), row.positions.begin(), row.positions.end());
    all.weights.insert(all.weights.end(), row.weights.begin(), row.weights.end());
  }
  const std::vector<std::int64_t> sizes{axis.out.constant(), taps.count};
  ir::Lowering& l = c.lowering();
  return {taps.count,
          [&l, t = constant_table(c, "resize_positions", DType::i64, sizes, all.positions)](BodyBuilder& b,
                                                                                            Expr at, Expr k) {
            return b.as_index(l.load(b, t, std::vector<Expr>{at, k}));
          },
          [&l, t = constant_table(c, "resize_weights", compute, sizes, all.weights)](BodyBuilder& b, Expr at,
                                                                                     Expr k) {
            return l.load(b, t, std::vector<Expr>{at, k});
          }};
}

Sampling dynamic_sampling(OpContext& c, const ResizeOptions& o, const ResizeAxis& axis, DType compute) {
  if (o.antialias && axis.is_static()) {
    c.fail(errors::kUnsupportedForm,
           fmt::format("attribute 'antialias' is 1, but axis {} has more than {} elements", axis.index,
                       kLongestTable));
  }
  if (o.antialias) {
    c.fail(
        errors::kUnsupportedForm,
        fmt::format("attribute 'antialias' is 1, but the size of axis {} depends on a dimension", axis.index),
        "fix the dimension to one value");
  }
  const Taps taps = taps_of(o, 1);
  const auto before = [o, axis](BodyBuilder& b, Expr at) {
    const Real x = source_of(o, axis, b, at);
    return std::pair(x, apply(OpCode::ceil, x) - 1.0);
  };
  const auto tap = [taps](BodyBuilder& b, Real first, Expr k) { return first + real(b, k + taps.first); };
  const auto plain_weight = [=](BodyBuilder& b, Expr at, Expr k) {
    const auto [x, first] = before(b, at);
    const Real position = tap(b, first, k), weight = kernel(o, position - x);
    if (!o.exclude_outside) return weight;
    const ValueId inside =
        b.binary(OpCode::logical_and, literal(x, 0) <= position, position <= real(b, axis.in - 1));
    return select(inside, weight, literal(x, 0));
  };
  return {taps.count,
          [=](BodyBuilder& b, Expr at, Expr k) {
            return clamped_index(tap(b, before(b, at).second, k), axis.in);
          },
          [=](BodyBuilder& b, Expr at, Expr k) {
            const Real weight = plain_weight(b, at, k);
            if (!o.exclude_outside) return b.cast(weight.v, compute);
            Real sum = plain_weight(b, at, 0);
            for (std::int64_t j = 1; j < taps.count; ++j) sum = sum + plain_weight(b, at, j);
            return b.cast((weight / select(sum == 0, literal(sum, 1), sum)).v, compute);
          }};
}

// x resampled along one axis; its type is the one computed in.
TensorBox resampled(OpContext& c, const ResizeOptions& o, const ResizeAxis& axis, const TensorBox& x) {
  ir::Lowering& l = c.lowering();
  const Sampling sampling =
      has_table(axis) ? static_sampling(c, o, axis, x.dtype()) : dynamic_sampling(c, o, axis, x.dtype());
  std::vector<Expr> sizes = x.sizes();
  sizes[axis.index] = axis.out;
  const auto term = [&](BodyBuilder& b, std::span<const Expr> at, Expr k) {
    std::vector<Expr> source(at.begin(), at.end());
    source[axis.index] = sampling.position(b, at[axis.index], k);
    return b.binary(OpCode::mul, l.load(b, x, source), sampling.weight(b, at[axis.index], k));
  };
  constexpr std::int64_t kUnrolled = 4;
  if (sampling.count <= kUnrolled) {
    return l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
      ValueId sum = term(b, at, 0);
      for (std::int64_t k = 1; k < sampling.count; ++k) sum = b.binary(OpCode::add, sum, term(b, at, k));
      return sum;
    });
  }
  std::vector<Expr> with_taps = sizes;
  with_taps.push_back(sampling.count);
  const TensorBox terms = l.generate(with_taps, [&](BodyBuilder& b, std::span<const Expr> at) {
    return term(b, at.first(at.size() - 1), at.back());
  });
  return l.reduce(terms, ir::ReduceKind::sum, {static_cast<int>(sizes.size())}, false);
}

// Whether the coordinate of an element lies outside of the input, where tf_crop_and_resize has a value of its
// own.
ValueId is_outside(const ResizeOptions& o, const ResizeAxis& axis, BodyBuilder& b, Expr at) {
  const Real x = source_of(o, axis, b, at);
  return b.binary(OpCode::logical_or, x < literal(x, 0), real(b, axis.in - 1) < x);
}

TensorBox with_extrapolation(OpContext& c, const ResizeOptions& o, const std::vector<ResizeAxis>& axes,
                             TensorBox y) {
  if (o.coordinates != "tf_crop_and_resize") return y;
  return c.lowering().generate(y.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    ValueId value = c.lowering().load(b, y, at);
    const ValueId outside_value = b.constant_of(y.dtype(), o.extrapolation);
    for (const ResizeAxis& axis : axes)
      value = b.where(is_outside(o, axis, b, at[axis.index]), outside_value, value);
    return value;
  });
}

TensorBox nearest_resized(OpContext& c, const ResizeOptions& o, const std::vector<ResizeAxis>& axes,
                          const TensorBox& x) {
  std::vector<Expr> sizes = x.sizes();
  std::vector<Position> positions;
  for (const ResizeAxis& axis : axes) {
    sizes[axis.index] = axis.out;
    positions.push_back(nearest_position(c, o, axis));
  }
  return c.lowering().generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source(at.begin(), at.end());
    for (std::size_t k = 0; k < axes.size(); ++k) source[axes[k].index] = positions[k](b, at[axes[k].index]);
    return c.lowering().load(b, x, source);
  });
}

}  // namespace

TensorBox resized(OpContext& c, const ResizeOptions& o, const std::vector<ResizeAxis>& axes) {
  ir::Lowering& l = c.lowering();
  const TensorBox x = c.input(0);
  for (const ResizeAxis& axis : axes) {
    if (axis.in.is_constant(0) && !axis.out.is_constant(0))
      c.fail(errors::kShapeMismatch, fmt::format("axis {} has no elements to resize", axis.index));
    // A fixed size has elements even if the input, whose size is known later, has none.
    if (!axis.scale) l.require_equal(ir::max(axis.in, 1), axis.in);
  }
  if (axes.empty()) return x;
  if (o.mode == ResizeMode::nearest) return with_extrapolation(c, o, axes, nearest_resized(c, o, axes, x));
  const DType dtype = x.dtype(), compute = is_float(dtype) ? compute_type(dtype) : DType::f64;
  TensorBox y = l.cast(x, compute);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    y = resampled(c, o, axes[k], y);
    // Two taps per axis are read again by each user; more are computed once.
    if (o.mode == ResizeMode::cubic || o.antialias) l.mark_reuse(y, 4);
  }
  y = with_extrapolation(c, o, axes, y);
  return l.cast(is_float(dtype) ? y : unary(l, OpCode::round, y), dtype);
}

}  // namespace braid::frontend
