// CumSum and CumProd, as a sum or product over all elements up to the present one. Quadratic in the length of
// the axis: meant for the short axes on which models use them (positions from an attention mask).
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

template <ir::ReduceKind kind>
void lower(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const TensorBox x = c.input(0);
  const std::vector<std::int64_t> given = c.constant_ints(1, "the axis");
  if (given.size() != 1) c.fail(errors::kInvalidNode, "the axis must be one number");
  const auto axis = static_cast<std::size_t>(c.normalize_axis(given[0], c.rank(0)));
  const bool exclusive = c.int_attribute("exclusive", 0) != 0, reverse = c.int_attribute("reverse", 0) != 0;
  const DType dtype = x.dtype(), compute = compute_type(dtype);
  std::vector<Expr> sizes = x.sizes();
  sizes.push_back(x.sizes()[axis]);
  const TensorBox terms = l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source(at.begin(), at.end() - 1);
    const ValueId here = b.index(at[axis]), other = b.index(at.back());
    source[axis] = at.back();
    const OpCode before = exclusive ? OpCode::lt : OpCode::le;
    const ValueId counts = reverse ? b.binary(before, here, other) : b.binary(before, other, here);
    return b.where(counts, b.cast(l.load(b, x, source), compute),
                   b.constant_of(compute, kind == ir::ReduceKind::prod ? 1 : 0));
  });
  c.set_output(0, l.cast(l.reduce(terms, kind, {static_cast<int>(x.rank())}, false), dtype));
}

}  // namespace

std::span<const OpSpec> cumsum_ops() {
  static const OpSpec ops[] = {
      {"", "CumProd", 26, kNewestOpset, kNumbers, lower<ir::ReduceKind::prod>, work::cumulative(),
       rule::kCumulative, kNoState, kNoSizes},
      {"", "CumSum", 11, kNewestOpset, kNumbers, lower<ir::ReduceKind::sum>, work::cumulative(),
       rule::kCumulative, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
