// TensorScatter: a cache into which each sequence of a batch writes a run of elements, from a position of its
// own.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_tensor_scatter(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const std::string mode = c.string_attribute("mode", "linear");
  if (mode != "linear" && mode != "circular")
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute 'mode' is '{}', expected linear or circular", mode));
  const TensorBox cache = c.input(0), update = c.input(1);
  const auto axis = static_cast<std::size_t>(c.axis_attribute(c.rank(0), -2));
  if (axis == 0) c.fail(errors::kInvalidAttribute, "attribute 'axis' is that of the batch");
  if (update.rank() != cache.rank())
    c.fail(errors::kShapeMismatch, fmt::format("ranks {} and {} differ", cache.rank(), update.rank()));
  const Expr size = cache.sizes()[axis], count = update.sizes()[axis];
  for (std::size_t k = 0; k < cache.rank(); ++k) {
    if (k != axis) l.require_equal(cache.sizes()[k], update.sizes()[k]);
  }
  if (ir::provably_less(size, count)) {
    c.fail(errors::kShapeMismatch,
           fmt::format("an update of {} elements for a cache of {}", to_string(count), to_string(size)));
  }
  l.require_equal(ir::max(size, count), size);
  std::optional<TensorBox> begins;
  if (c.has_input(2)) {
    if (c.rank(2) != 1)
      c.fail(errors::kShapeMismatch, fmt::format("the positions have rank {}, expected 1", c.rank(2)));
    begins = c.input(2);
    l.require_equal(begins->sizes()[0], cache.sizes()[0]);
  }
  c.set_output(0, l.generate(cache.sizes(), [&](BodyBuilder& b, std::span<const Expr> at) {
    const ValueId zero = b.constant(DType::i64, std::int64_t{0});
    ValueId begin = begins ? b.cast(l.load(b, *begins, at.first(1)), DType::i64) : zero;
    if (mode == "linear") begin = b.check_index(begin, size - count + 1);  // the whole update must fit
    ValueId distance = b.binary(OpCode::sub, b.index(at[axis]), begin);
    if (mode == "circular") distance = b.binary(OpCode::mod, distance, b.index(size));
    const ValueId written = b.binary(OpCode::logical_and, b.binary(OpCode::ge, distance, zero),
                                     b.binary(OpCode::lt, distance, b.index(count)));
    std::vector<Expr> source(at.begin(), at.end());
    source[axis] = b.as_index(distance);
    return b.where(written, l.load(b, update, source, written), l.load(b, cache, at));
  }));
}

}  // namespace

std::span<const OpSpec> tensor_scatter_ops() {
  static const OpSpec ops[] = {
      {"", "TensorScatter", 24, kNewestOpset, kAllTypes, lower_tensor_scatter, work::gather(5),
       rule::kTensorScatter, carries({{0, 0}}), kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
