// Convolutions, with the channels of every operand last (ir::Convolution); layouts in memory are those of the
// operands.
#include "frontend/ops/convolution.h"

#include "frontend/ops/windows.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// Which dimension of the weights counts the filters of all groups; the other counts the channels of one.
struct Filters {
  std::vector<std::int64_t> taps;
  std::int64_t groups, per_group, channels;  // channels and filters of one group
};

std::int64_t known(OpContext& c, Expr size) {
  if (!size.is_constant())
    c.fail(errors::kUnsupportedForm,
           fmt::format("the weights have the size '{}', which must be known", to_string(size)));
  return size.constant();
}

Filters filters_of(OpContext& c, const TensorBox& x, const TensorBox& w, bool transposed) {
  const std::vector<Expr>& sizes = w.sizes();
  if (w.rank() != x.rank()) {
    c.fail(errors::kShapeMismatch,
           fmt::format("the input has rank {}, but the weights have rank {}", x.rank(), w.rank()));
  }
  Filters f{{}, c.int_attribute("group", 1), 0, 0};
  for (std::size_t d = 2; d < sizes.size(); ++d) f.taps.push_back(known(c, sizes[d]));
  const std::int64_t outer = known(c, sizes[0]), inner = known(c, sizes[1]);
  if (f.groups < 1 || outer % f.groups != 0) {
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'group' is {}, which does not divide the {} {}",
                                                  f.groups, outer, transposed ? "channels" : "filters"));
  }
  f.channels = transposed ? outer / f.groups : inner;
  f.per_group = transposed ? inner : outer / f.groups;
  const Expr channels = x.sizes()[1];
  if (channels.is_constant() && channels.constant() != f.groups * f.channels) {
    c.fail(errors::kShapeMismatch,
           fmt::format("the input has {} channels, but the weights are for {} groups of {}",
                       channels.constant(), f.groups, f.channels));
  }
  for (std::int64_t taps : f.taps) {
    if (taps < 1) c.fail(errors::kShapeMismatch, "a window of the weights has no elements");
  }
  if (const auto shape = c.ints_attribute("kernel_shape"); shape && *shape != f.taps) {
    c.fail(errors::kShapeMismatch,
           fmt::format("attribute 'kernel_shape' is [{}], but the weights have windows of [{}]",
                       fmt::join(*shape, ", "), fmt::join(f.taps, ", ")));
  }
  return f;
}

// Returns weights as [groups, taps..., channels, filters]. They have the filters of all groups first, or,
// transposed, the channels.
TensorBox grouped(ir::Lowering& l, const TensorBox& w, const Filters& f, bool transposed) {
  std::vector<Expr> sizes = {f.groups};
  sizes.insert(sizes.end(), f.taps.begin(), f.taps.end());
  sizes.insert(sizes.end(), {f.channels, f.per_group});
  const std::size_t channel = f.taps.size() + 1, filter = channel + 1;
  const Expr group = l.pool().index(0), c = l.pool().index(channel), m = l.pool().index(filter);
  std::vector<Expr> map = transposed ? std::vector<Expr>{group * f.channels + c, m}
                                     : std::vector<Expr>{group * f.per_group + m, c};
  for (std::size_t d = 0; d < f.taps.size(); ++d) map.push_back(l.pool().index(d + 1));
  return l.view(w, std::move(sizes), std::move(map));
}

}  // namespace

TensorBox convolved(OpContext& c, const TensorBox& x, const TensorBox& w, bool transposed) {
  ir::Lowering& l = c.lowering();
  const std::vector<Expr> spatial = spatial_sizes(c, x.sizes());
  const Filters f = filters_of(c, x, w, transposed);
  const Windows windows =
      transposed ? transposed_windows_of(c, spatial, f.taps) : windows_of_convolution(c, spatial, f.taps);
  return channels_first(l, l.convolution(channels_last(l, x), grouped(l, w, f, transposed), windows.windows,
                                         windows.sizes, transposed));
}

TensorBox convolution(OpContext& c, bool transposed) {
  ir::Lowering& l = c.lowering();
  const TensorBox y = convolved(c, c.input(0), c.input(1), transposed);
  if (!c.has_input(2)) return y;
  if (c.rank(2) != 1)
    c.fail(errors::kShapeMismatch, fmt::format("the bias has rank {}, expected 1", c.rank(2)));
  const Expr filters = y.sizes()[1], given = c.size(2, 0);
  if (given.is_constant() && !(given == filters)) {
    c.fail(errors::kShapeMismatch,
           fmt::format("the bias has {} values for {} filters", to_string(given), to_string(filters)));
  }
  l.require_equal(given, filters);
  TensorBox bias = c.input(2);
  for (std::size_t d = 2; d < y.rank(); ++d) bias = l.unsqueeze(bias, static_cast<int>(d) - 1);
  // A loop of its own becomes the beginning of the epilogue. Together with the loops that follow it might
  // have no name there.
  return l.realize(binary(l, OpCode::add, y, bias));
}

namespace {

template <bool transposed>
void lower_convolution(OpContext& c) {
  c.set_output(0, convolution(c, transposed));
}

// Integers less their zero point, in i32. `k` is the zero point: a scalar, or one value per filter.
TensorBox centered(OpContext& c, TensorBox x, int k, bool per_filter) {
  ir::Lowering& l = c.lowering();
  x = l.cast(x, DType::i32);
  if (!c.has_input(k)) return x;
  TensorBox zero = l.cast(c.input(k), DType::i32);
  if (zero.rank() > 1 || (zero.rank() == 1 && !per_filter && !zero.sizes()[0].is_constant(1)))
    c.fail(errors::kShapeMismatch, fmt::format("the zero point of input {} must be a scalar", k - 2));
  if (zero.rank() == 1 && !zero.sizes()[0].is_constant(1)) {
    l.require_equal(zero.sizes()[0], c.size(k - 2, 0));
    for (std::size_t d = 1; d < x.rank(); ++d) zero = l.unsqueeze(zero, static_cast<int>(d));
  }
  return binary(l, OpCode::sub, x, zero);
}

void lower_conv_integer(OpContext& c) {
  const TensorBox x = centered(c, c.input(0), 2, false), w = centered(c, c.input(1), 3, true);
  c.set_output(0, convolved(c, x, w, false));
}

constexpr TypeSet kBytes = {DType::i8, DType::u8};

}  // namespace

std::span<const OpSpec> convolution_ops() {
  static const OpSpec ops[] = {
      {"", "Conv", 1, kNewestOpset, kFloats, lower_convolution<false>, work::convolution(0, 1), rule::kConv,
       kNoState, kNoSizes},
      {"", "ConvTranspose", 1, kNewestOpset, kFloats, lower_convolution<true>,
       work::transposed_convolution(0, 1), rule::kConvTranspose, kNoState, kNoSizes},
      {"", "ConvInteger", 10, kNewestOpset, kBytes, lower_conv_integer,
       work::convolution(0, 1).passing_on(work::widened_bytes), rule::kConvInteger, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
