// Operators whose results have as many elements as the data say: Compress, NonZero, NonMaxSuppression and Unique. They
// are computed while compiling where that is possible, and refused by name otherwise.
#include <algorithm>

#include "frontend/ops/constant_input.h"
#include "ir/element.h"

namespace braid::frontend {
namespace {

void lower_compress(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(1) != 1) c.fail(kShapeMismatch, fmt::format("the condition has rank {}, expected 1", c.rank(1)));
  std::vector<std::int64_t> kept;
  const std::vector<double> condition = constant_numbers(c, 1, "the number of elements that are kept");
  for (std::size_t k = 0; k < condition.size(); ++k) {
    if (condition[k] != 0) kept.push_back(static_cast<std::int64_t>(k));
  }
  const bool flat = !c.has_attribute("axis");
  const TensorBox x = flat ? l.reshape(c.input(0), {ir::product(c.sizes(0))}) : c.input(0);
  const auto axis = static_cast<std::size_t>(flat ? 0 : c.axis_attribute(c.rank(0), 0));
  const std::int64_t last = kept.empty() ? -1 : kept.back();
  const Expr size = x.sizes()[axis];
  if (ir::provably_less(size, last + 1))
    c.fail(kShapeMismatch, fmt::format("element {} is kept of {}", last, to_string(size)));
  l.require_equal(ir::max(size, last + 1), size);
  std::vector<Expr> sizes = x.sizes();
  sizes[axis] = kept.size();
  const TensorBox positions =
      constant_table(c, "kept", DType::i64, {static_cast<std::int64_t>(kept.size())},
                     std::vector<double>(kept.begin(), kept.end()));
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source(at.begin(), at.end());
    source[axis] = b.as_index(l.load(b, positions, at.subspan(axis, 1)));
    return l.load(b, x, source);
  }));
}

void lower_non_zero(OpContext& c) {
  const std::vector<double> values = constant_numbers(c, 0, "the number of nonzero elements");
  std::vector<std::int64_t> sizes;
  for (const Expr& size : c.sizes(0)) sizes.push_back(size.constant());
  if (sizes.empty()) sizes.push_back(1);  // a scalar counts as one row
  std::vector<std::vector<std::int64_t>> positions(sizes.size());  // by axis
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (values[k] == 0) continue;
    auto rest = static_cast<std::int64_t>(k);
    for (std::size_t d = sizes.size(); d-- > 0;) {
      positions[d].push_back(rest % sizes[d]);
      rest /= sizes[d];
    }
  }
  const auto count = static_cast<std::int64_t>(positions[0].size());
  std::vector<std::int64_t> all;
  for (const std::vector<std::int64_t>& axis : positions) all.insert(all.end(), axis.begin(), axis.end());
  const std::int64_t rows = c.rank(0) == 0 ? 0 : static_cast<std::int64_t>(sizes.size());
  if (rows == 0) all.clear();
  c.set_output(0, integer_tensor(DType::i64, {rows, count}, all));
}

void lower_non_max_suppression(OpContext& c) {
  fail_unknown_value(c, 0, "the number of selected boxes");
}

void lower_unique(OpContext& c) { fail_unknown_value(c, 0, "the number of distinct elements"); }

const OpSpec kOps[] = {
    {"", "Compress", 9, kNewestOpset, kAllTypes, lower_compress},
    {"", "NonMaxSuppression", 10, kNewestOpset, {DType::f32}, lower_non_max_suppression},
    {"", "NonZero", 9, kNewestOpset, kAllTypes, lower_non_zero},
    {"", "Unique", 11, kNewestOpset, kAllTypes, lower_unique},
};

}  // namespace

std::span<const OpSpec> data_dependent_ops() { return kOps; }

}  // namespace braid::frontend
