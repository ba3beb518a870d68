// Trilu: one triangle of the last two dimensions, zero elsewhere.
#include "frontend/ops/common.h"
#include "frontend/ops/operand_sizes.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_trilu(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const TensorBox x = c.input(0);
  if (x.rank() < 2) c.fail(errors::kShapeMismatch, "the input must be a matrix or a stack of matrices");
  const bool upper = c.int_attribute("upper", 1) != 0;
  Expr known_diagonal = 0;
  std::optional<TensorBox> diagonal;
  if (c.has_input(1)) {
    const std::optional<Elements>& elements = elements_of(c.value(1));
    if (elements && elements->values.size() == 1) {
      known_diagonal = elements->values[0];
    } else {
      diagonal = one_element(c, 1, "the diagonal");
    }
  }
  c.set_output(0, l.generate(x.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId distance = b.index(at[at.size() - 1] - at[at.size() - 2]);  // column - row
    const ValueId k = diagonal ? l.load(b, *diagonal, {}) : number(b, known_diagonal, DType::i64);
    const ValueId value = l.load(b, x, at);
    const ValueId zero =
        is_float(x.dtype()) ? b.constant(x.dtype(), 0.0) : b.constant(x.dtype(), std::int64_t{0});
    return b.where(b.binary(upper ? OpCode::ge : OpCode::le, distance, k), value, zero);
  }));
}

}  // namespace

std::span<const OpSpec> trilu_ops() {
  static const OpSpec ops[] = {
      {"", "Trilu", 14, kNewestOpset, kAllTypes, lower_trilu, work::pointwise(2), rule::kTriangles, kNoState,
       kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
