// Slice: a view.
#include <set>

#include "frontend/ops/common.h"
#include "frontend/shape_rules.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

std::vector<Expr> as_exprs(const std::vector<std::int64_t>& values) { return {values.begin(), values.end()}; }

void lower_slice(OpContext& c) {
  const int rank = c.rank(0);
  std::vector<Expr> starts, ends;
  std::vector<std::int64_t> axes, steps;
  if (c.version() < 10) {
    starts = as_exprs(c.ints_attribute("starts").value_or(std::vector<std::int64_t>{}));
    ends = as_exprs(c.ints_attribute("ends").value_or(std::vector<std::int64_t>{}));
    if (const auto given = c.ints_attribute("axes")) axes = *given;
  } else {
    starts = c.positions(1, "the starts");
    ends = c.positions(2, "the ends");
    if (c.has_input(3)) axes = c.constant_ints(3, "the axes");
    if (c.has_input(4)) steps = c.constant_ints(4, "the steps");
  }
  if (axes.empty()) {
    for (std::size_t k = 0; k < starts.size(); ++k) axes.push_back(static_cast<std::int64_t>(k));
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    c.fail(errors::kInvalidNode, fmt::format("{} starts, {} ends, {} axes and {} steps", starts.size(),
                                             ends.size(), axes.size(), steps.size()));
  }
  TensorBox x = c.input(0);
  std::set<int> seen;
  for (std::size_t k = 0; k < starts.size(); ++k) {
    const int axis = c.normalize_axis(axes[k], rank, "an axis");
    if (!seen.insert(axis).second) c.fail(errors::kInvalidNode, fmt::format("axis {} is given twice", axis));
    const Range range = sliced(x.sizes()[static_cast<std::size_t>(axis)], starts[k], ends[k], steps[k]);
    x = c.lowering().slice(x, axis, range.start, range.count, range.step);
  }
  c.set_output(0, x);
}

}  // namespace

std::span<const OpSpec> slice_ops() {
  static const OpSpec ops[] = {
      {"", "Slice", 1, kNewestOpset, kAllTypes, lower_slice, work::select(), rule::kSlice, kNoState,
       size_rule::kSlice},
  };
  return ops;
}

}  // namespace braid::frontend
