// Repetition: Expand, Tile. Both are views.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_expand(OpContext& c) {
  const std::vector<Expr> sizes = c.shape_values(1, "the sizes");
  for (const Expr& s : sizes) {
    if (ir::bounds(s).min < 0)
      c.fail(errors::kShapeMismatch, fmt::format("size {} may be negative", to_string(s)));
  }
  c.set_output(0, c.lowering().expand(c.input(0), sizes));
}

void lower_tile(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const TensorBox x = c.input(0);
  const std::vector<Expr> repeats = c.shape_values(1, "the repeats");
  if (repeats.size() != x.rank())
    c.fail(errors::kShapeMismatch, fmt::format("got {} repeats for rank {}", repeats.size(), x.rank()));
  std::vector<Expr> sizes, map;
  for (std::size_t k = 0; k < x.rank(); ++k) {
    if (ir::bounds(repeats[k]).min < 0)
      c.fail(errors::kShapeMismatch, fmt::format("repeats {} may be negative", to_string(repeats[k])));
    const Expr index = l.pool().index(k);
    sizes.push_back(x.sizes()[k] * repeats[k]);
    map.push_back(repeats[k].is_constant(1) ? index : ir::mod(index, ir::max(x.sizes()[k], 1)));
  }
  c.set_output(0, l.view(x, sizes, map));
}

}  // namespace

std::span<const OpSpec> expand_tile_ops() {
  static const OpSpec ops[] = {
      {"", "Expand", 8, kNewestOpset, kAllTypes, lower_expand, work::repeat(), rule::kExpand, kNoState,
       size_rule::kExpand},
      {"", "Tile", 6, kNewestOpset, kAllTypes, lower_tile, work::repeat(), rule::kTile, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
