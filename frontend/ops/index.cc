#include "frontend/ops/index.h"

namespace braid::frontend {

ValueId checked_position(BodyBuilder& b, ValueId index, Expr size, std::span<const Expr> extents) {
  const ValueId i = b.cast(index, DType::i64);
  if (b.instr(i).code == OpCode::index) {
    const Expr known = b.instr(i).index;
    if (ir::provably_non_negative(known, extents)) {
      return ir::provably_less(known, size, extents) ? i : b.check_index(i, size);
    }
  }
  const ValueId negative = b.binary(OpCode::lt, i, b.constant(DType::i64, std::int64_t{0}));
  const ValueId wrapped = b.where(negative, b.binary(OpCode::add, i, number(b, size, DType::i64)), i);
  return b.check_index(wrapped, size);
}

Expr checked_index(BodyBuilder& b, ValueId index, Expr size, std::span<const Expr> extents) {
  const ValueId position = checked_position(b, index, size, extents);
  return b.instr(position).code == OpCode::index ? b.instr(position).index : b.as_index(position);
}

}  // namespace braid::frontend
