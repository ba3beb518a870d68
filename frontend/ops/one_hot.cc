// OneHot: a new axis along which the indexed position has one value and all others another.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// The depth may be of any type.
Expr depth_of(OpContext& c) {
  if (is_float(c.dtype(1))) {
    if (const std::optional<double> depth = c.constant_scalar(1)) return static_cast<std::int64_t>(*depth);
  }
  const std::vector<Expr> depth = c.shape_values(1, "the depth");
  if (depth.size() != 1) c.fail(errors::kShapeMismatch, "the depth must be one number");
  return depth[0];
}

void lower_one_hot(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const Expr depth = depth_of(c);
  const TensorBox indices = c.input(0), values = c.input(2);
  const auto axis = static_cast<std::size_t>(c.axis_attribute(c.rank(0) + 1, -1));
  std::vector<Expr> sizes = indices.sizes();
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source(at.begin(), at.end());
    source.erase(source.begin() + static_cast<std::ptrdiff_t>(axis));
    const ValueId index = b.cast(l.load(b, indices, source), DType::i64);
    const ValueId negative = b.binary(OpCode::lt, index, b.constant(DType::i64, std::int64_t{0}));
    const ValueId wrapped = b.where(negative, b.binary(OpCode::add, index, b.index(depth)), index);
    const std::vector<Expr> off{0}, on{1};
    return b.where(b.binary(OpCode::eq, wrapped, b.index(at[axis])), l.load(b, values, on),
                   l.load(b, values, off));
  }));
}

}  // namespace

std::span<const OpSpec> one_hot_ops() {
  static const OpSpec ops[] = {
      {"", "OneHot", 9, kNewestOpset, kNumbers, lower_one_hot, work::pointwise(5), rule::kOneHot, kNoState,
       kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
