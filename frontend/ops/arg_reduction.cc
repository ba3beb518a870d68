// The position of the largest or smallest element along an axis: the extreme value first, then the first or last
// position that holds it.
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

using ir::ReduceKind;

template <ReduceKind kind>
void lower(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const int axis = c.axis_attribute(c.rank(0), 0);
  const auto a = static_cast<std::size_t>(axis);
  const bool last = c.int_attribute("select_last_index", 0) != 0;
  const TensorBox x = c.input(0);
  const TensorBox extreme =
      l.cast(l.reduce(l.cast(x, compute_type(x.dtype())), kind, {axis}, true), x.dtype());
  l.mark_reuse(extreme, 2);
  const Expr size = x.sizes()[a];
  const TensorBox positions = l.generate(x.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> kept(at.begin(), at.end());
    kept[a] = 0;
    const ValueId equal = b.binary(OpCode::eq, l.load(b, x, at), l.load(b, extreme, kept));
    return b.where(equal, b.index(at[a]), b.index(last ? Expr(0) : size - 1));
  });
  c.set_output(0, l.reduce(positions, last ? ReduceKind::max : ReduceKind::min, {axis},
                           c.int_attribute("keepdims", 1) != 0));
}

const OpSpec kOps[] = {
    {"", "ArgMax", 1, kNewestOpset, kNumbers, lower<ReduceKind::max>},
    {"", "ArgMin", 1, kNewestOpset, kNumbers, lower<ReduceKind::min>},
};

}  // namespace

std::span<const OpSpec> arg_reduction_ops() { return kOps; }

}  // namespace braid::frontend
