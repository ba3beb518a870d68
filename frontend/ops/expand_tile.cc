// Repetition: Expand, Tile. Both are views.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// Expands to sizes that only a run tells: an axis of 1 repeats, on either side.
void lower_measured_expand(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::int64_t given = c.size(1, 0).constant(), have_rank = c.rank(0),
                     rank = std::max(given, have_rank);
  const TensorBox wanted = l.cast(c.input(1), DType::i64);
  std::vector<Expr> sizes, map;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    const std::int64_t in_x = axis - (rank - have_rank), in_sizes = axis - (rank - given);
    const Expr have = in_x < 0 ? Expr(1) : c.sizes(0)[static_cast<std::size_t>(in_x)];
    if (in_sizes < 0) {
      sizes.push_back(have);
    } else {
      const std::string& name = c.value(1).name;
      const std::optional<std::int64_t> most =
          ir::provably_less(1, have) ? std::optional(ir::bounds(have).max) : std::nullopt;
      sizes.push_back(c.measured_size(
          1, "the sizes", given == 1 ? name : fmt::format("{}.{}", name, in_sizes), most, [&] {
            return l.generate({}, [&](BodyBuilder& b, std::span<const Expr>) {
              const Expr at[] = {in_sizes};
              const ValueId want = l.load(b, wanted, at), own = b.index(have),
                            one = b.constant_of(DType::i64, 1);
              const ValueId repeats = b.binary(OpCode::eq, own, one), keeps = b.binary(OpCode::eq, want, one);
              const ValueId other =
                  b.where(b.binary(OpCode::eq, own, want), own, b.constant_of(DType::i64, -1));
              return b.where(repeats, want, b.where(keeps, own, other));  // -1: they do not fit
            });
          }));
    }
    const Expr index = l.pool().index(static_cast<std::size_t>(axis));
    if (in_x >= 0) map.push_back(have.is_constant(1) ? Expr(0) : ir::mod(index, ir::max(have, 1)));
  }
  c.set_output(0, l.view(c.input(0), sizes, map));
}

void lower_expand(OpContext& c) {
  if (!c.knows(1) && c.measures() && c.rank(1) == 1 && c.size(1, 0).is_constant())
    return lower_measured_expand(c);
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
