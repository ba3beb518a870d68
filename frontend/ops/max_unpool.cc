// MaxUnpool: elements go to the positions that MaxPool took them from, zeros elsewhere. Indices count through
// the whole unpooled tensor, without padding.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

std::vector<std::int64_t> list(OpContext& c, const char* name, std::size_t count, std::int64_t fallback) {
  const auto given = c.ints_attribute(name).value_or(std::vector<std::int64_t>(count, fallback));
  if (given.size() != count)
    c.fail(errors::kInvalidAttribute,
           fmt::format("attribute '{}' has {} elements, expected {}", name, given.size(), count));
  return given;
}

// Returns the sizes of the input of the pool, as the attributes imply.
std::vector<Expr> unpooled_sizes(OpContext& c) {
  const std::vector<Expr>& in = c.sizes(0);
  const std::size_t n = in.size() - 2;
  if (!c.has_attribute("kernel_shape"))
    c.fail(errors::kInvalidAttribute, "attribute 'kernel_shape' is missing");
  const auto kernel = list(c, "kernel_shape", n, 1), strides = list(c, "strides", n, 1),
             pads = list(c, "pads", 2 * n, 0);
  std::vector<Expr> sizes(in.begin(), in.begin() + 2);
  for (std::size_t k = 0; k < n; ++k) {
    if (kernel[k] < 1 || strides[k] < 1)
      c.fail(errors::kInvalidAttribute, "windows and strides must be at least 1");
    sizes.push_back((in[2 + k] - 1) * strides[k] + kernel[k] - pads[k] - pads[k + n]);
    if (ir::bounds(sizes.back()).max < 0)
      c.fail(errors::kShapeMismatch,
             fmt::format("axis {} would have size {}", 2 + k, to_string(sizes.back())));
    c.lowering().require_at_most(0, sizes.back());
  }
  return sizes;
}

void lower_max_unpool(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) < 3 || c.rank(1) != c.rank(0)) {
    c.fail(
        errors::kShapeMismatch,
        fmt::format("the input has rank {} and the indices have rank {}, expected equal ones of at least 3",
                    c.rank(0), c.rank(1)));
  }
  const std::vector<Expr> inner = unpooled_sizes(c);
  const std::vector<Expr> sizes = c.has_input(2) ? c.shape_values(2, "the sizes of the output") : inner;
  if (sizes.size() != inner.size())
    c.fail(errors::kShapeMismatch,
           fmt::format("{} sizes of the output, expected {}", sizes.size(), inner.size()));
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (ir::provably_less(sizes[k], inner[k])) {
      c.fail(errors::kShapeMismatch, fmt::format("axis {} of the output has size {}, expected at least {}", k,
                                                 to_string(sizes[k]), to_string(inner[k])));
    }
    l.require_equal(ir::max(sizes[k], inner[k]), sizes[k]);
    l.require_equal(c.sizes(0)[k], c.sizes(1)[k]);
  }
  const Expr count = ir::product(c.sizes(0)), range = ir::product(inner);
  const TensorBox x = l.reshape(c.input(0), {count}), indices = l.reshape(c.input(1), {count});
  const TensorBox positions = l.generate({count}, [&](BodyBuilder& b, std::span<const Expr> at) {
    return b.check_index(b.cast(l.load(b, indices, at), DType::i64), range);
  });
  const std::vector<Expr> rows = {1, range, 1};
  const TensorBox zeros =
      l.generate(rows, [&](BodyBuilder& b, std::span<const Expr>) { return b.constant_of(x.dtype(), 0); });
  const TensorBox unpooled = l.reshape(
      l.extern_call("scatter", {zeros, l.reshape(positions, {1, count}), l.reshape(x, {1, count, 1})},
                    {{x.dtype(), rows}}, {{"reduction", std::string("none")}})[0],
      inner);
  if (sizes == inner) return c.set_output(0, unpooled);
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::optional<ValueId> inside;
    for (std::size_t k = 0; k < at.size(); ++k) {
      if (sizes[k] == inner[k]) continue;
      const ValueId here = b.binary(OpCode::lt, b.index(at[k]), b.index(inner[k]));
      inside = inside ? b.binary(OpCode::logical_and, *inside, here) : here;
    }
    return l.load(b, unpooled, at, inside);
  }));
}

}  // namespace

std::span<const OpSpec> max_unpool_ops() {
  static const OpSpec ops[] = {
      {"", "MaxUnpool", 9, kNewestOpset, kFloats, lower_max_unpool, work::unpool(),
       sharding::replicated("its indices are positions in the whole tensor"), kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
