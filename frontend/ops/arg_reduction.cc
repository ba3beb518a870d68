// The position of the largest or smallest element along an axis: the extreme value first, then the first or
// last position that holds it. NaN counts as extreme.
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

using ir::ReduceKind;

// Along `axis`, which is kept with size 1 or removed.
TensorBox position_of_extreme(ir::Lowering& l, const TensorBox& x, ReduceKind kind, int axis, bool last,
                              bool keepdims) {
  const auto a = static_cast<std::size_t>(axis);
  const TensorBox extreme =
      l.cast(l.reduce(l.cast(x, compute_type(x.dtype())), kind, {axis}, true), x.dtype());
  l.mark_reuse(extreme, 2);
  const Expr size = x.sizes()[a];
  const TensorBox positions = l.generate(x.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> kept(at.begin(), at.end());
    kept[a] = 0;
    const ValueId here = l.load(b, x, at);
    ValueId found = b.binary(OpCode::eq, here, l.load(b, extreme, kept));
    // If there is a NaN, it is the extreme value, which equals nothing.
    if (is_float(x.dtype())) found = b.binary(OpCode::logical_or, found, b.unary(OpCode::is_nan, here));
    return b.where(found, b.index(at[a]), b.index(last ? Expr(0) : size - 1));
  });
  return l.reduce(positions, last ? ReduceKind::max : ReduceKind::min, {axis}, keepdims);
}

template <ReduceKind kind>
void lower(OpContext& c) {
  const int axis = c.axis_attribute(c.rank(0), 0);
  c.set_output(0, position_of_extreme(c.lowering(), c.input(0), kind, axis,
                                      c.int_attribute("select_last_index", 0) != 0,
                                      c.int_attribute("keepdims", 1) != 0));
}

// 1 at the first maximum along an axis, 0 elsewhere.
TensorBox marked_maximum(ir::Lowering& l, const TensorBox& x, int axis) {
  const TensorBox position = position_of_extreme(l, x, ReduceKind::max, axis, false, true);
  l.mark_reuse(position, 2);
  return l.generate(x.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> kept(at.begin(), at.end());
    const Expr here = std::exchange(kept[static_cast<std::size_t>(axis)], 0);
    const ValueId marked = b.binary(OpCode::eq, l.load(b, position, kept), b.index(here));
    return b.where(marked, b.constant_of(x.dtype(), 1), b.constant_of(x.dtype(), 0));
  });
}

// Up to version 12 the tensor counts as a matrix: all axes from `axis` on are one.
void lower_hardmax(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const int rank = c.rank(0);
  const TensorBox x = c.input(0);
  if (c.version() >= 13) return c.set_output(0, marked_maximum(l, x, c.axis_attribute(rank, -1)));
  const std::int64_t given = c.int_attribute("axis", 1);
  const int axis = given == rank ? rank : c.normalize_axis(given, rank);
  const std::span<const Expr> sizes = x.sizes();
  const std::size_t rows = static_cast<std::size_t>(axis);
  const TensorBox matrix = l.reshape(x, {ir::product(sizes.first(rows)), ir::product(sizes.subspan(rows))});
  c.set_output(0, l.reshape(marked_maximum(l, matrix, 1), x.sizes()));
}

}  // namespace

std::span<const OpSpec> arg_reduction_ops() {
  static const OpSpec ops[] = {
      {"", "ArgMax", 1, kNewestOpset, kNumbers, lower<ReduceKind::max>, work::reduction(6, 2), rule::kArgMax,
       kNoState, kNoSizes},
      {"", "ArgMin", 1, kNewestOpset, kNumbers, lower<ReduceKind::min>, work::reduction(6, 2), rule::kArgMin,
       kNoState, kNoSizes},
      {"", "Hardmax", 1, kNewestOpset, kFloats, lower_hardmax, work::reduction(8, 2), rule::kHardmax,
       kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
