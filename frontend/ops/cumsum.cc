// CumSum and CumProd: the extern kernel `cumulative` (runtime/host/cumulative.h) carries a sum or product
// along the axis.
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
  const auto a = static_cast<std::size_t>(c.normalize_axis(given[0], c.rank(0)));
  const std::int64_t exclusive = c.int_attribute("exclusive", 0) != 0,
                     reverse = c.int_attribute("reverse", 0) != 0;
  const DType dtype = x.dtype(), compute = compute_type(dtype);
  const std::span<const Expr> sizes = x.sizes();
  const std::vector<Expr> lanes = {ir::product(sizes.first(a)), sizes[a], ir::product(sizes.subspan(a + 1))};
  const TensorBox y = l.extern_call("cumulative", {l.reshape(l.cast(x, compute), lanes)}, {{compute, lanes}},
                                    {{"exclusive", exclusive},
                                     {"product", std::int64_t{kind == ir::ReduceKind::prod}},
                                     {"reverse", reverse}})[0];
  c.set_output(0, l.cast(l.reshape(y, x.sizes()), dtype));
}

}  // namespace

std::span<const OpSpec> cumsum_ops() {
  static const OpSpec ops[] = {
      {"", "CumProd", 26, kNewestOpset, kNumbers, lower<ir::ReduceKind::prod>, work::reduction(1),
       rule::kCumulative, kNoState, kNoSizes},
      {"", "CumSum", 11, kNewestOpset, kNumbers, lower<ir::ReduceKind::sum>, work::reduction(1),
       rule::kCumulative, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
