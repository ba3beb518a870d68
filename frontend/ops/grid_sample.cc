// GridSample: images sampled at positions that are read at run time. AffineGrid: such positions, from an
// affine transformation.
#include "frontend/ops/real.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

enum class Mode { nearest, linear, cubic };
enum class Padding { zeros, border, reflection };

struct Options {
  Mode mode;
  Padding padding;
  bool align_corners;
};

Options options_of(OpContext& c) {
  const bool old_names = c.version() < 20;
  const char *linear = old_names ? "bilinear" : "linear", *cubic = old_names ? "bicubic" : "cubic";
  const std::string mode = c.string_attribute("mode", linear),
                    padding = c.string_attribute("padding_mode", "zeros");
  if (mode != linear && mode != cubic && mode != "nearest") {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'mode' is '{}', expected {}, nearest or {}", mode, linear, cubic));
  }
  if (padding != "zeros" && padding != "border" && padding != "reflection") {
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'padding_mode' is '{}', expected zeros, border or reflection", padding));
  }
  return {mode == linear  ? Mode::linear
          : mode == cubic ? Mode::cubic
                          : Mode::nearest,
          padding == "zeros"    ? Padding::zeros
          : padding == "border" ? Padding::border
                                : Padding::reflection,
          c.int_attribute("align_corners", 0) != 0};
}

// One spatial axis of the image.
struct Axis {
  Options o;
  Expr size;

  Real extent(Real like) const { return real(*like.b, size, like.b->dtype(like.v)); }
  Real low(Real like) const { return literal(like, o.align_corners ? 0 : -0.5); }
  Real high(Real like) const { return extent(like) - (o.align_corners ? 1 : 0.5); }
};

// x mirrored at both ends of the axis until it lies between them.
Real reflected(const Axis& axis, Real x) {
  BodyBuilder& b = *x.b;
  const Real low = axis.low(x), high = axis.high(x);
  const ValueId below = x < low, above = high < x;
  const Real range = apply(OpCode::max, high - low, literal(x, 0));
  const Real distance = select(below, low - x, x - high);
  const Real times = apply(OpCode::floor, distance / range), rest = distance - times * range;
  const ValueId odd = b.unary(OpCode::logical_not, times - apply(OpCode::floor, times / 2) * 2 == 0);
  const Real mirrored = select(b.binary(OpCode::logical_xor, below, odd), low + rest, high - rest);
  const Real result = select(b.binary(OpCode::logical_or, below, above), mirrored, x);
  return select(range == 0, 0, result);  // a single element
}

// The coordinate in pixels of a position between -1 and 1.
Real coordinate(const Axis& axis, Real position) {
  const Real size = axis.extent(position);
  Real x = axis.o.align_corners ? (position + 1) / 2 * (size - 1) : ((position + 1) * size - 1) / 2;
  if (axis.o.mode == Mode::nearest) x = apply(OpCode::round, x);
  if (axis.o.padding == Padding::reflection) return reflected(axis, x);
  if (axis.o.padding == Padding::zeros) return x;
  // Coordinates within half a pixel of the border keep their fraction.
  const Real clamped = apply(OpCode::min, apply(OpCode::max, x, literal(x, 0)), size - 1);
  return select(x.b->binary(OpCode::logical_or, x < axis.low(x), axis.high(x) < x), clamped, x);
}

// A neighbour of a coordinate: its position, its weight, and for zero padding whether it lies in the image.
struct Tap {
  Expr position = 0;
  Real weight;
  std::optional<ValueId> inside;
};

Tap tap_at(const Axis& axis, Real position, Real weight) {
  if (axis.o.padding == Padding::reflection) position = reflected(axis, position);
  Tap tap{clamped_index(position, axis.size), weight, std::nullopt};
  if (axis.o.padding == Padding::zeros)
    tap.inside = position.b->binary(OpCode::logical_and, literal(position, 0) <= position,
                                    position < axis.extent(position));
  return tap;
}

// Weights of the four neighbours of a coordinate with fraction t (cubic convolution with a = -0.75).
std::vector<Real> cubic_weights(Real t) {
  constexpr double a = -0.75;
  const auto far = [&](Real x) { return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a; };
  const auto near = [&](Real x) { return (x * (a + 2) - (a + 3)) * x * x + 1.0; };
  return {far(t + 1), near(t), near(1.0 - t), far(2.0 - t)};
}

std::vector<Tap> taps_of(const Axis& axis, Real x) {
  if (axis.o.mode == Mode::nearest) return {tap_at(axis, x, literal(x, 1))};
  const Real first = apply(OpCode::floor, x), t = x - first;
  if (axis.o.mode == Mode::linear) return {tap_at(axis, first, 1.0 - t), tap_at(axis, first + 1, t)};
  const std::vector<Real> weights = cubic_weights(t);
  std::vector<Tap> taps;
  for (int k = 0; k < 4; ++k)
    taps.push_back(tap_at(axis, first + (k - 1), weights[static_cast<std::size_t>(k)]));
  return taps;
}

// The weighted sum over the taps of the axes from `taps` on; `source` and `inside` are of the axes before.
ValueId sampled(ir::Lowering& l, BodyBuilder& b, const TensorBox& x, std::span<const std::vector<Tap>> taps,
                std::vector<Expr>& source, std::optional<ValueId> inside, DType compute) {
  if (taps.empty()) return b.cast(l.load(b, x, source, inside), compute);
  std::optional<ValueId> sum;
  for (const Tap& tap : taps[0]) {
    source.push_back(tap.position);
    std::optional<ValueId> here = tap.inside ? tap.inside : inside;
    if (tap.inside && inside) here = b.binary(OpCode::logical_and, *inside, *tap.inside);
    const ValueId value = sampled(l, b, x, taps.subspan(1), source, here, compute);
    source.pop_back();
    if (taps[0].size() == 1) return value;
    const ValueId term = b.binary(OpCode::mul, b.cast(tap.weight.v, compute), value);
    sum = sum ? b.binary(OpCode::add, *sum, term) : term;
  }
  return *sum;
}

void lower_grid_sample(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const Options o = options_of(c);
  const TensorBox x = c.input(0), grid = c.input(1);
  const std::size_t n = x.rank() - std::min<std::size_t>(x.rank(), 2);  // spatial axes
  const bool ranks_fit = n >= 1 && grid.rank() == x.rank() && (c.version() >= 20 || n == 2);
  if (!ranks_fit) {
    c.fail(errors::kShapeMismatch,
           fmt::format("the input has rank {} and the grid has rank {}, expected equal ones{}", x.rank(),
                       grid.rank(), c.version() < 20 ? " of 4" : ""));
  }
  constexpr std::size_t kMostAxes = 3;
  if (n > kMostAxes) c.fail(errors::kUnsupportedForm, fmt::format("{} spatial axes are not supported", n));
  l.require_equal(grid.sizes()[0], x.sizes()[0]);
  l.require_equal(grid.sizes().back(), static_cast<std::int64_t>(n));
  std::vector<Axis> axes;
  std::vector<Expr> sizes{x.sizes()[0], x.sizes()[1]};
  for (std::size_t k = 0; k < n; ++k) {
    axes.push_back({o, x.sizes()[2 + k]});
    if (axes[k].size.is_constant(0))
      c.fail(errors::kShapeMismatch, fmt::format("axis {} has no elements", 2 + k));
    l.require_equal(ir::max(axes[k].size, 1), axes[k].size);
    sizes.push_back(grid.sizes()[1 + k]);
  }
  const DType dtype = x.dtype();
  const DType position_type = dtype == DType::f64 ? DType::f64 : compute_type(grid.dtype());
  const DType compute = o.mode == Mode::nearest ? dtype : is_float(dtype) ? compute_type(dtype) : DType::f64;
  const TensorBox y = l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<std::vector<Tap>> taps;
    for (std::size_t k = 0; k < n; ++k) {
      std::vector<Expr> from{at[0]};
      from.insert(from.end(), at.begin() + 2, at.end());
      from.emplace_back(n - 1 - k);  // the last axis comes first in the grid
      const Real position{&b, b.cast(l.load(b, grid, from), position_type)};
      taps.push_back(taps_of(axes[k], coordinate(axes[k], position)));
    }
    std::vector<Expr> source{at[0], at[1]};
    return sampled(l, b, x, taps, source, std::nullopt, compute);
  });
  c.set_output(0, l.cast(y, dtype));
}

// The position between -1 and 1 of element k of an axis.
Real normalised(BodyBuilder& b, Expr k, Expr size, bool align_corners, DType dtype) {
  const Real at = real(b, k, dtype);
  if (!align_corners) return (at * 2 + 1) / real(b, size, dtype) - 1;
  if (size.is_constant(1)) return literal(at, 0);
  const Real steps = real(b, ir::max(size - 1, 1), dtype);
  const Real position = at * 2 / steps - 1;
  return size.is_constant() ? position : select(real(b, size, dtype) == 1, 0, position);
}

void lower_affine_grid(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::vector<Expr> size = c.shape_values(1, "the sizes");
  if (size.size() != 4 && size.size() != 5)
    c.fail(errors::kShapeMismatch, fmt::format("got {} sizes, expected 4 or 5", size.size()));
  const std::size_t n = size.size() - 2;
  if (c.rank(0) != 3) c.fail(errors::kShapeMismatch, fmt::format("theta has rank {}, expected 3", c.rank(0)));
  const TensorBox theta = c.input(0);
  l.require_equal(theta.sizes()[0], size[0]);
  l.require_equal(theta.sizes()[1], n);
  l.require_equal(theta.sizes()[2], n + 1);
  const bool align_corners = c.int_attribute("align_corners", 0) != 0;
  const DType dtype = theta.dtype(), compute = compute_type(dtype);
  std::vector<Expr> sizes{size[0]};
  sizes.insert(sizes.end(), size.begin() + 2, size.end());
  sizes.emplace_back(n);
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    const auto coefficient = [&](std::size_t k) {
      const std::vector<Expr> from{at[0], at.back(), k};
      return Real{&b, b.cast(l.load(b, theta, from), compute)};
    };
    Real sum = coefficient(n);
    for (std::size_t k = 0; k < n; ++k)  // x, which is the last axis, comes first
      sum = sum + coefficient(k) * normalised(b, at[n - k], size[1 + n - k], align_corners, compute);
    return b.cast(sum.v, dtype);
  }));
}

}  // namespace

std::span<const OpSpec> grid_sample_ops() {
  static const OpSpec ops[] = {
      {"", "AffineGrid", 20, kNewestOpset, kFloats, lower_affine_grid, work::pointwise(2), rule::kTable,
       kNoState, kNoSizes},
      {"", "GridSample", 16, kNewestOpset, kAllTypes, lower_grid_sample, work::sample(), rule::kGridSample,
       kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
