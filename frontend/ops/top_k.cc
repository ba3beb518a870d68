// TopK: the largest or smallest elements along an axis, in order, and their positions. Among equal elements
// the one with the lower index comes first. NaN counts as larger than any number.
#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// `size` is that of the axis.
Expr count_of(OpContext& c, const Expr& size) {
  if (c.version() < 10) {
    const std::int64_t k = c.int_attribute("k");
    if (k < 0) c.fail(errors::kInvalidAttribute, fmt::format("attribute 'k' is {}, expected at least 0", k));
    return k;
  }
  constexpr const char* kWhat = "the values of k";
  if (!c.knows(1) && ir::product(c.sizes(1)).is_constant(1)) {
    ir::Lowering& l = c.lowering();
    const Expr k = c.measured_size(1, kWhat, c.value(1).name, ir::bounds(size).max,
                                   [&] { return l.reshape(l.cast(c.input(1), DType::i64), {}); });
    c.value(1).elements = Elements{std::vector<std::int64_t>(c.sizes(1).size(), 1), {k}};
    return k;
  }
  const std::vector<Expr> k = c.shape_values(1, kWhat);
  if (k.size() != 1) c.fail(errors::kShapeMismatch, fmt::format("k must be one number, got {}", k.size()));
  return k[0];
}

void lower_top_k(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) == 0) c.fail(errors::kShapeMismatch, "a scalar has no axis");
  const int axis = c.axis_attribute(c.rank(0), -1), rank = c.rank(0);
  const Expr size = c.sizes(0)[static_cast<std::size_t>(axis)], k = count_of(c, size);
  if (ir::bounds(k).min < 0 || ir::provably_less(size, k)) {
    c.fail(errors::kShapeMismatch,
           fmt::format("{} elements along axis {}, which has size {}", to_string(k), axis, to_string(size)));
  }
  l.require_equal(ir::max(size, k), size);

  std::vector<int> last, back;  // the axis to the end, and back
  for (int d = 0; d < rank; ++d) {
    if (d != axis) last.push_back(d);
    back.push_back(d < axis ? d : d == axis ? rank - 1 : d - 1);
  }
  last.push_back(axis);
  const DType dtype = c.dtype(0), compute = compute_type(dtype);
  const TensorBox x = l.permute(l.cast(c.input(0), compute), last);
  std::vector<Expr> sizes = x.sizes();
  sizes.back() = k;
  const Expr rows = ir::product(std::span(sizes).first(sizes.size() - 1));
  const bool largest = c.int_attribute("largest", 1) != 0;
  const std::vector<TensorBox> found =
      l.extern_call("top_k", {l.reshape(x, {rows, size})}, {{compute, {rows, k}}, {DType::i64, {rows, k}}},
                    {{"largest", std::int64_t{largest}}});
  c.set_output(0, l.cast(l.permute(l.reshape(found[0], sizes), back), dtype));
  c.set_output(1, l.permute(l.reshape(found[1], sizes), back));
}

}  // namespace

std::span<const OpSpec> top_k_ops() {
  static const OpSpec ops[] = {
      {"", "TopK", 1, kNewestOpset, kNumbers, lower_top_k, work::best(), rule::kTopK, kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
