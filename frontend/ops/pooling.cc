// Pools with windows; those over everything are reductions (reduction.cc).
#include "frontend/ops/windows.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// Returns positions among the spatial elements of one channel as positions in the whole input.
TensorBox in_whole_input(OpContext& c, const TensorBox& positions) {
  ir::Lowering& l = c.lowering();
  const std::vector<Expr>& sizes = c.sizes(0);
  const bool column_major = c.int_attribute("storage_order", 0) != 0;
  return l.generate(positions.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    ValueId position = l.load(b, positions, at);
    Expr count = 1;
    for (std::size_t d = 2; d < sizes.size(); ++d) count = count * sizes[d];
    if (column_major) {
      // Row-major positions count the last dimension first.
      ValueId rest = position, flipped = b.index(0);
      Expr stride = count;
      for (std::size_t d = sizes.size(); d-- > 2;) {
        stride = ir::floor_div(stride, ir::max(sizes[d], 1));
        const ValueId size = b.index(sizes[d]);
        flipped = b.binary(OpCode::add, flipped,
                           b.binary(OpCode::mul, b.binary(OpCode::mod, rest, size), b.index(stride)));
        rest = b.binary(OpCode::div, rest, size);
      }
      position = flipped;
    }
    const Expr channel = at[0] * sizes[1] + at[at.size() - 1];
    return b.binary(OpCode::add, position, b.index(channel * count));
  });
}

void lower_max_pool(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::vector<Expr> spatial = spatial_sizes(c, c.sizes(0));
  const Windows w = windows_of_pool(c, spatial, kernel_shape(c, spatial.size()));
  const TensorBox x = channels_last(l, c.input(0));
  c.set_output(0, channels_first(l, l.pool(ir::PoolKind::max, x, w.windows, w.sizes)));
  if (c.has_output(1)) {
    const TensorBox positions = l.pool(ir::PoolKind::arg_max, x, w.windows, w.sizes);
    c.set_output(1, channels_first(l, in_whole_input(c, positions)));
  }
}

// The taps of the window at each position that lie inside of the padded input.
Expr padded_taps(const Windows& w, const std::vector<Expr>& spatial, std::span<const Expr> at) {
  Expr count = 1;
  for (std::size_t d = 0; d < w.windows.size(); ++d) {
    const ir::Window& window = w.windows[d];
    const Expr room = spatial[d] + window.pad + w.pads_after[d] - at[d + 1] * window.stride;
    count = count * ir::min(ir::ceil_div(room, window.dilation), window.taps);
  }
  return count;
}

}  // namespace

TensorBox average_pool(OpContext& c, const TensorBox& given) {
  ir::Lowering& l = c.lowering();
  const std::vector<Expr> spatial = spatial_sizes(c, given.sizes());
  const Windows w = windows_of_pool(c, spatial, kernel_shape(c, spatial.size()));
  const TensorBox x = channels_last(l, given);
  if (c.int_attribute("count_include_pad", 0) == 0)
    return channels_first(l, l.pool(ir::PoolKind::average, x, w.windows, w.sizes));
  const DType wide = compute_type(x.dtype());
  const TensorBox sums = l.pool(ir::PoolKind::sum, l.cast(x, wide), w.windows, w.sizes);
  const TensorBox y = l.generate(sums.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    const Expr count = ir::simplify(padded_taps(w, spatial, at), sums.sizes());
    return b.binary(OpCode::div, l.load(b, sums, at), number(b, count, wide));
  });
  return channels_first(l, l.cast(y, x.dtype()));
}

namespace {

void lower_average_pool(OpContext& c) { c.set_output(0, average_pool(c, c.input(0))); }

// (sum of |x|^p)^(1/p)
void lower_lp_pool(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::vector<Expr> spatial = spatial_sizes(c, c.sizes(0));
  const std::int64_t p = c.int_attribute("p", 2);
  if (p < 1)
    c.fail(errors::kInvalidAttribute, fmt::format("attribute 'p' is {}, expected a positive number", p));
  const Windows w = windows_of_pool(c, spatial, kernel_shape(c, spatial.size()));
  const DType dtype = c.dtype(0), wide = compute_type(dtype);
  const auto power = [&](const TensorBox& x, double exponent) {
    return l.pointwise({x}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      return b.binary(OpCode::pow, v[0], b.constant_of(b.dtype(v[0]), exponent));
    });
  };
  TensorBox x = unary(l, OpCode::abs, l.cast(c.input(0), wide));
  if (p == 2) x = binary(l, OpCode::mul, x, x);
  if (p > 2) x = power(x, static_cast<double>(p));
  TensorBox y = l.pool(ir::PoolKind::sum, channels_last(l, x), w.windows, w.sizes);
  if (p == 2) y = unary(l, OpCode::sqrt, y);
  if (p > 2) y = power(y, 1 / static_cast<double>(p));
  c.set_output(0, channels_first(l, l.cast(y, dtype)));
}

constexpr TypeSet kFloatsAndBytes = kFloats | TypeSet{DType::i8, DType::u8};

}  // namespace

std::span<const OpSpec> pooling_ops() {
  static const OpSpec ops[] = {
      {"", "AveragePool", 1, kNewestOpset, kFloats, lower_average_pool, work::pool(1), rule::kPool, kNoState,
       kNoSizes},
      {"", "LpPool", 2, kNewestOpset, kFloats, lower_lp_pool, work::widened_pool(2), rule::kPool, kNoState,
       kNoSizes},
      {"", "MaxPool", 1, kNewestOpset, kFloatsAndBytes, lower_max_pool, work::pool(1), rule::kPool, kNoState,
       kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
