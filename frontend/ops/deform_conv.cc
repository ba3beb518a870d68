// DeformConv: a convolution whose window positions are moved by offsets. Every position of every window is
// sampled linearly into a column; the columns are then multiplied with the weights, one product per group.
#include "frontend/ops/real.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

constexpr std::size_t kAxes = 2;

struct Windows {
  std::int64_t kernel[kAxes], strides[kAxes], dilations[kAxes], pads[2 * kAxes];
  std::int64_t groups, offset_groups;

  std::int64_t positions() const { return kernel[0] * kernel[1]; }
};

Windows windows_of(OpContext& c) {
  Windows w{};
  const auto list = [&](const char* name, std::size_t count, std::int64_t lowest, auto fallback,
                        std::int64_t* to) {
    const auto given = c.ints_attribute(name);
    if (given && given->size() != count)
      c.fail(errors::kInvalidAttribute,
             fmt::format("attribute '{}' has {} elements, expected {}", name, given->size(), count));
    for (std::size_t k = 0; k < count; ++k) {
      to[k] = given ? (*given)[k] : fallback(k);
      if (to[k] < lowest)
        c.fail(errors::kInvalidAttribute,
               fmt::format("attribute '{}' has the element {}, expected at least {}", name, to[k], lowest));
    }
  };
  const auto number = [](std::int64_t value) { return [value](std::size_t) { return value; }; };
  list(
      "kernel_shape", kAxes, 1,
      [&](std::size_t k) {
        const Expr size = c.sizes(1)[2 + k];
        if (!size.is_constant())
          c.fail(errors::kUnsupportedForm,
                 fmt::format("the window size {} depends on a dimension", to_string(size)));
        return size.constant();
      },
      w.kernel);
  list("strides", kAxes, 1, number(1), w.strides);
  list("dilations", kAxes, 1, number(1), w.dilations);
  list("pads", 2 * kAxes, 0, number(0), w.pads);
  w.groups = c.int_attribute("group", 1);
  w.offset_groups = c.int_attribute("offset_group", 1);
  if (w.groups < 1 || w.offset_groups < 1)
    c.fail(errors::kInvalidAttribute,
           fmt::format("attributes 'group' and 'offset_group' are {} and {}, expected at least 1", w.groups,
                       w.offset_groups));
  return w;
}

void check_sizes(OpContext& c, const Windows& w) {
  ir::Lowering& l = c.lowering();
  const std::vector<Expr>&x = c.sizes(0), &weights = c.sizes(1), &offset = c.sizes(2);
  l.require_equal(weights[1] * w.groups, x[1]);
  l.require_equal(ir::mod(weights[0], w.groups), 0);
  l.require_equal(ir::mod(x[1], w.offset_groups), 0);
  l.require_equal(offset[0], x[0]);
  l.require_equal(offset[1], w.offset_groups * w.positions() * 2);
  for (std::size_t k = 0; k < kAxes; ++k) {
    l.require_equal(weights[2 + k], w.kernel[k]);
    const Expr span = (w.kernel[k] - 1) * w.dilations[k] + 1;
    const Expr room = x[2 + k] + w.pads[k] + w.pads[k + kAxes] - span;
    if (ir::bounds(room).max < 0)
      c.fail(errors::kShapeMismatch, fmt::format("the window is larger than the input along axis {}", 2 + k));
    l.require_equal(offset[2 + k], ir::floor_div(room, w.strides[k]) + 1);
  }
  if (c.has_input(4)) {
    if (c.rank(4) != 4)
      c.fail(errors::kShapeMismatch, fmt::format("the mask has rank {}, expected 4", c.rank(4)));
    const std::vector<Expr>& mask = c.sizes(4);
    l.require_equal(mask[0], x[0]);
    l.require_equal(mask[1], w.offset_groups * w.positions());
    for (std::size_t k = 0; k < kAxes; ++k) l.require_equal(mask[2 + k], offset[2 + k]);
  }
}

// The linear sample of one channel of an image, zero outside.
Real sample(ir::Lowering& l, const TensorBox& x, std::span<const Expr> plane, const Real (&at)[kAxes]) {
  BodyBuilder& b = *at[0].b;
  const DType compute = b.dtype(at[0].v);
  std::optional<Real> sum;
  const Real first[kAxes] = {apply(OpCode::floor, at[0]), apply(OpCode::floor, at[1])};
  for (int corner = 0; corner < 4; ++corner) {
    std::vector<Expr> source(plane.begin(), plane.end());
    std::optional<ValueId> inside;
    std::optional<Real> weight;
    for (std::size_t k = 0; k < kAxes; ++k) {
      const bool second = (k == 0 ? corner / 2 : corner % 2) != 0;
      const Expr size = x.sizes()[2 + k];
      const Real position = second ? first[k] + 1 : first[k], t = at[k] - first[k];
      const Real part = second ? t : 1.0 - t;
      const ValueId here =
          b.binary(OpCode::logical_and, literal(t, 0) <= position, position < real(b, size, compute));
      source.push_back(clamped_index(position, size));
      inside = inside ? b.binary(OpCode::logical_and, *inside, here) : here;
      weight = weight ? *weight * part : part;
    }
    const Real term = *weight * Real{&b, b.cast(l.load(b, x, source, inside), compute)};
    sum = sum ? *sum + term : term;
  }
  return *sum;
}

// [n, c, kernel height, kernel width, output height, output width]
TensorBox columns_of(OpContext& c, const Windows& w, DType compute) {
  ir::Lowering& l = c.lowering();
  const TensorBox x = c.input(0), offset = c.input(2);
  const std::vector<Expr>&in = x.sizes(), &out = offset.sizes();
  const Expr per_offset_group = ir::floor_div(in[1], w.offset_groups);
  return l.generate({in[0], in[1], w.kernel[0], w.kernel[1], out[2], out[3]}, [&](BodyBuilder& b,
                                                                                  std::span<const Expr> at) {
    const Expr position =
        (ir::floor_div(at[1], per_offset_group) * w.kernel[0] + at[2]) * w.kernel[1] + at[3];
    const auto coordinate = [&](std::size_t k) {
      const std::vector<Expr> from{at[0], position * 2 + k, at[4], at[5]};
      const Expr fixed = at[4 + k] * w.strides[k] - w.pads[k] + at[2 + k] * w.dilations[k];
      return real(b, fixed, compute) + Real{&b, b.cast(l.load(b, offset, from), compute)};
    };
    const Real coordinates[kAxes] = {coordinate(0), coordinate(1)};
    Real value = sample(l, x, at.first(2), coordinates);
    if (c.has_input(4)) {
      const std::vector<Expr> from{at[0], position, at[4], at[5]};
      value = value * Real{&b, b.cast(l.load(b, c.input(4), from), compute)};
    }
    return value.v;
  });
}

void lower_deform_conv(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) != 4) {
    c.fail(c.rank(0) < 3 ? errors::kShapeMismatch : errors::kUnsupportedForm,
           fmt::format("the input has rank {}; supported are images, which have rank 4", c.rank(0)));
  }
  if (c.rank(1) != 4 || c.rank(2) != 4)
    c.fail(errors::kShapeMismatch,
           fmt::format("weights of rank {} and offsets of rank {}, expected 4", c.rank(1), c.rank(2)));
  const Windows w = windows_of(c);
  check_sizes(c, w);
  const DType dtype = c.dtype(0), compute = compute_type(dtype);
  const std::vector<Expr>&in = c.sizes(0), &weights = c.sizes(1), &out = c.sizes(2);
  const Expr depth = weights[1] * w.positions(), pixels = out[2] * out[3];
  const TensorBox columns = l.reshape(columns_of(c, w, compute), {in[0], w.groups, depth, pixels});
  const TensorBox rows =
      l.reshape(l.cast(c.input(1), compute), {1, w.groups, ir::floor_div(weights[0], w.groups), depth});
  TensorBox y = l.reshape(l.matmul(rows, columns), {in[0], weights[0], out[2], out[3]});
  if (c.has_input(3)) {
    const TensorBox bias = l.reshape(l.cast(c.input(3), compute), {weights[0], 1, 1});
    y = binary(l, OpCode::add, y, bias);
  }
  c.set_output(0, l.cast(y, dtype));
}

}  // namespace

std::span<const OpSpec> deform_conv_ops() {
  static const OpSpec ops[] = {
      {"", "DeformConv", 19, kNewestOpset, kFloats, lower_deform_conv, work::deformable_convolution(0, 1),
       rule::kDeformConv, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
