// Choice between two tensors.
#include "frontend/ops/common.h"

namespace braid::frontend {
namespace {

void lower_where(OpContext& c) {
  c.set_output(0, c.lowering().pointwise(
                      {c.input(0), c.input(1), c.input(2)},
                      [](BodyBuilder& b, std::span<const ValueId> v) { return b.where(v[0], v[1], v[2]); }));
}

}  // namespace

std::span<const OpSpec> where_ops() {
  static const OpSpec ops[] = {
      {"", "Where", 9, kNewestOpset, kBool, lower_where, work::pointwise(1), rule::kChoice,
       carries({{0, 1}, {0, 2}}), size_rule::kWhere},
  };
  return ops;
}

}  // namespace braid::frontend
