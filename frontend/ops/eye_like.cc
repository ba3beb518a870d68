// EyeLike: ones on a diagonal.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_eye_like(OpContext& c) {
  if (c.rank(0) != 2)
    c.fail(errors::kShapeMismatch, fmt::format("the input has rank {}, expected a matrix", c.rank(0)));
  const DType dtype = c.has_attribute("dtype") ? c.dtype_of(c.int_attribute("dtype")) : c.dtype(0);
  const std::int64_t k = c.int_attribute("k", 0);
  c.set_output(0, c.lowering().generate(c.sizes(0), [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId on = b.binary(OpCode::eq, b.index(at[1] - at[0]), b.constant(DType::i64, k));
    return b.cast(on, dtype);
  }));
}

}  // namespace

std::span<const OpSpec> eye_like_ops() {
  static const OpSpec ops[] = {
      {"", "EyeLike", 9, kNewestOpset, kAllTypes, lower_eye_like, work::pointwise(2), rule::kTable, kNoState,
       kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
