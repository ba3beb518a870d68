// Gather: rows chosen by index. Negative indices count from the end.
#include "frontend/ops/common.h"
#include "frontend/shape_rules.h"

namespace braid::frontend {
namespace {

// An index read while running, as an index expression. Out of range is an error of the step. What is known of
// a computed index (positions from a Range) saves the checks.
Expr checked_index(BodyBuilder& b, ValueId index, Expr size, std::span<const Expr> extents) {
  const ValueId i = b.cast(index, DType::i64);
  if (b.instr(i).code == OpCode::index) {
    const Expr known = b.instr(i).index;
    if (ir::provably_non_negative(known, extents)) {
      return ir::provably_less(known, size, extents) ? known : b.as_index(b.check_index(i, size));
    }
  }
  const ValueId negative = b.binary(OpCode::lt, i, b.constant(DType::i64, std::int64_t{0}));
  const ValueId wrapped = b.where(negative, b.binary(OpCode::add, i, number(b, size, DType::i64)), i);
  return b.as_index(b.check_index(wrapped, size));
}

void lower_gather(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const int axis = c.axis_attribute(c.rank(0), 0);
  const auto a = static_cast<std::size_t>(axis);
  const TensorBox x = c.input(0);
  const Expr size = x.sizes()[a];
  const std::optional<Elements>& known = elements_of(c.value(1));
  if (known && known->values.size() == 1) {  // one row: a view
    TensorBox row = l.slice(x, axis, wrapped_index(known->values[0], size), 1);
    if (known->sizes.empty()) {
      row = l.squeeze(row, axis);
    } else {
      for (std::size_t k = 1; k < known->sizes.size(); ++k) row = l.unsqueeze(row, axis);
    }
    c.set_output(0, row);
    return;
  }
  const TensorBox indices = c.input(1);
  const std::size_t q = indices.rank();
  std::vector<Expr> sizes(x.sizes().begin(), x.sizes().begin() + axis);
  sizes.insert(sizes.end(), indices.sizes().begin(), indices.sizes().end());
  sizes.insert(sizes.end(), x.sizes().begin() + axis + 1, x.sizes().end());
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    const Expr row = checked_index(b, l.load(b, indices, at.subspan(a, q)), size, sizes);
    std::vector<Expr> source(at.begin(), at.begin() + axis);
    source.push_back(row);
    source.insert(source.end(), at.begin() + static_cast<std::ptrdiff_t>(a + q), at.end());
    return l.load(b, x, source);
  }));
}

void lower_gather_elements(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const auto axis = static_cast<std::size_t>(c.axis_attribute(c.rank(0), 0));
  const TensorBox x = c.input(0), indices = c.input(1);
  if (x.rank() != indices.rank())
    c.fail(kShapeMismatch, fmt::format("ranks {} and {} differ", x.rank(), indices.rank()));
  c.set_output(0, l.generate(indices.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source(at.begin(), at.end());
    source[axis] = checked_index(b, l.load(b, indices, at), x.sizes()[axis], indices.sizes());
    return l.load(b, x, source);
  }));
}

const OpSpec kOps[] = {
    {"", "Gather", 1, kNewestOpset, kAllTypes, lower_gather},
    {"", "GatherElements", 11, kNewestOpset, kAllTypes, lower_gather_elements},
};

}  // namespace

std::span<const OpSpec> gather_ops() { return kOps; }

}  // namespace braid::frontend
