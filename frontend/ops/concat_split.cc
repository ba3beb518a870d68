// Concatenates and splits tensors.
#include <algorithm>

#include "frontend/ops/common.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

void lower_concat(OpContext& c) {
  const int rank = c.rank(0);
  const int axis = c.normalize_axis(c.int_attribute("axis"), rank);
  std::vector<TensorBox> parts;
  for (int k = 0; k < c.input_count(); ++k) {
    if (c.rank(k) != rank) {
      c.fail(errors::kShapeMismatch,
             fmt::format("input {} has rank {}, but input 0 has rank {}", k, c.rank(k), rank));
    }
    parts.push_back(c.input(k));
  }
  const bool columns = axis == rank - 1 && std::all_of(parts.begin(), parts.end(), [](const TensorBox& part) {
                         return part.sizes().back().is_constant(1);
                       });
  if (columns && !is_float(parts[0].dtype())) c.set_columns(parts);
  c.set_output(0, parts.size() == 1 ? parts[0] : c.lowering().concat(parts, axis));
}

// Sizes of the parts: given (attribute, since version 13 input 1), or equal ones.
std::vector<Expr> part_sizes(OpContext& c, Expr size) {
  if (const auto given = c.ints_attribute("split")) return {given->begin(), given->end()};
  if (c.has_input(1)) return c.shape_values(1, "the sizes of the parts");
  const std::int64_t parts = c.int_attribute("num_outputs", c.output_count());
  if (parts < 1) c.fail(errors::kInvalidAttribute, fmt::format("attribute 'num_outputs' is {}", parts));
  if (parts != c.output_count()) {
    c.fail(errors::kInvalidNode,
           fmt::format("attribute 'num_outputs' is {}, but there are {} outputs", parts, c.output_count()));
  }
  // Since version 18 the last part may be smaller.
  const std::optional<Expr> exact = ir::divide_exactly(size, parts);
  if (!exact && (c.version() < 18 || !size.is_constant())) {
    // A multiple that the dimension happens to be is not known.
    c.fail(size.is_constant() ? errors::kShapeMismatch : errors::kUnsupportedForm,
           fmt::format("size {} cannot be split into {} equal parts", to_string(size), parts));
  }
  const Expr part = exact ? *exact : ir::ceil_div(size, parts);
  std::vector<Expr> sizes(static_cast<std::size_t>(parts), part);
  sizes.back() = size - part * (parts - 1);
  if (ir::bounds(sizes.back()).min < 0) {
    c.fail(errors::kShapeMismatch,
           fmt::format("size {} cannot be split into {} parts", to_string(size), parts));
  }
  return sizes;
}

void lower_split(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const int axis = c.axis_attribute(c.rank(0), 0);
  const TensorBox x = c.input(0);
  const Expr size = x.sizes()[static_cast<std::size_t>(axis)];
  const std::vector<Expr> parts = part_sizes(c, size);
  if (static_cast<int>(parts.size()) != c.output_count()) {
    c.fail(errors::kShapeMismatch,
           fmt::format("got {} sizes for {} outputs", parts.size(), c.output_count()));
  }
  Expr start = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (ir::bounds(parts[k]).min < 0)
      c.fail(errors::kShapeMismatch, fmt::format("part {} has size {}", k, to_string(parts[k])));
    c.set_output(static_cast<int>(k), l.slice(x, axis, start, parts[k]));
    start = start + parts[k];
  }
  if (start.is_constant() && size.is_constant() && !(start == size)) {
    c.fail(errors::kShapeMismatch, fmt::format("the parts have {} elements in all, but the axis has {}",
                                               to_string(start), to_string(size)));
  }
  l.require_equal(start, size);
}

}  // namespace

std::span<const OpSpec> concat_split_ops() {
  static const OpSpec ops[] = {
      {"", "Concat", 1, kNewestOpset, kAllTypes, lower_concat, work::join(), rule::kConcat,
       carries({{0, -1}}), size_rule::kConcat},
      {"", "Split", 1, kNewestOpset, kAllTypes, lower_split, work::select(), rule::kSplit, kNoState,
       size_rule::kSplit},
  };
  return ops;
}

}  // namespace braid::frontend
