// Slice: a view. A start or end that only a run tells becomes a measured size.
#include <set>
#include <variant>

#include "frontend/ops/common.h"
#include "frontend/shape_rules.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

// A start or an end: known, or an i64 scalar.
using Position = std::variant<Expr, TensorBox>;

std::vector<Position> positions(OpContext& c, int k, const char* what) {
  std::vector<Position> all;
  if (c.knows(k) || c.rank(k) > 1 || !ir::product(c.sizes(k)).is_constant()) {
    for (const Expr& e : c.positions(k, what)) all.emplace_back(e);
    return all;
  }
  ir::Lowering& l = c.lowering();
  const TensorBox values = l.reshape(l.cast(c.input(k), DType::i64), {ir::product(c.sizes(k))});
  for (std::int64_t at = 0; at < values.sizes()[0].constant(); ++at)
    all.emplace_back(l.squeeze(l.slice(values, 0, at, 1), 0));
  return all;
}

// ONNX's start and end of a slice of an axis as i64 scalars: negative ones count from the end, all are
// clamped.
struct RunTimeRange {
  TensorBox start, count;
};
RunTimeRange run_time_range(ir::Lowering& l, const Expr& size, const Position& start, const Position& end,
                            std::int64_t step) {
  const auto clamped = [&](const Position& position, std::int64_t least, std::int64_t below_end) {
    const bool known = std::holds_alternative<Expr>(position);
    const TensorBox x =
        known ? l.generate({}, [&](BodyBuilder& b,
                                   std::span<const Expr>) { return b.index(std::get<Expr>(position)); })
              : std::get<TensorBox>(position);
    return l.pointwise({x}, [&](BodyBuilder& b, std::span<const ValueId> v) {
      const ValueId zero = b.constant_of(DType::i64, 0);
      const ValueId from_end = b.binary(OpCode::add, v[0], b.index(size));
      const ValueId at = b.where(b.binary(OpCode::lt, v[0], zero), from_end, v[0]);
      const ValueId low = b.binary(OpCode::max, at, b.constant_of(DType::i64, static_cast<double>(least)));
      return b.binary(OpCode::min, low, b.index(size - below_end));
    });
  };
  const bool up = step > 0;
  const TensorBox first = clamped(start, 0, up ? 0 : 1), last = clamped(end, up ? 0 : -1, up ? 0 : 1);
  const TensorBox count = l.pointwise({first, last}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    const std::int64_t stride = up ? step : -step;
    const ValueId length = up ? b.binary(OpCode::sub, v[1], v[0]) : b.binary(OpCode::sub, v[0], v[1]);
    const ValueId some = b.binary(OpCode::max, length, b.constant_of(DType::i64, 0));
    const ValueId rounded = b.binary(OpCode::add, some, b.constant(DType::i64, stride - 1));
    return b.binary(OpCode::div, rounded, b.constant(DType::i64, stride));
  });
  // The last element of an empty axis is before its first one.
  const TensorBox start_at = l.pointwise({first}, [](BodyBuilder& b, std::span<const ValueId> v) {
    return b.binary(OpCode::max, v[0], b.constant_of(DType::i64, 0));
  });
  return {start_at, count};
}

// A slice of an axis of which only a run tells the start, the end or both.
TensorBox measured_slice(OpContext& c, const TensorBox& x, int axis, const Position& start,
                         const Position& end, std::int64_t step) {
  ir::Lowering& l = c.lowering();
  const Expr size = x.sizes()[static_cast<std::size_t>(axis)];
  const std::int64_t most = ir::bounds(size).max;
  // With a step of the size and more there is one element at most.
  const std::int64_t far = std::max<std::int64_t>(most, 1);
  step = std::clamp(step, -far, far);
  const RunTimeRange range = run_time_range(l, size, start, end, step);
  const std::string& name = c.output_name(0);
  const bool known_start = std::holds_alternative<Expr>(start);
  const int unknown = known_start ? 2 : 1;
  const Expr first = known_start
                         ? sliced(size, std::get<Expr>(start), size, step > 0 ? 1 : -1).start
                         : c.measured_size(1, "the starts", fmt::format("{}.start.{}", name, axis),
                                           std::max<std::int64_t>(most, 0), [&] { return range.start; });
  const Expr count = c.measured_size(unknown, "the sizes of the slice", fmt::format("{}.{}", name, axis),
                                     most, [&] { return range.count; });
  return l.slice(x, axis, first, count, step);
}

void lower_slice(OpContext& c) {
  const int rank = c.rank(0);
  std::vector<Position> starts, ends;
  std::vector<std::int64_t> axes, steps;
  if (c.version() < 10) {
    for (const std::int64_t k : c.ints_attribute("starts").value_or(std::vector<std::int64_t>{}))
      starts.emplace_back(Expr(k));
    for (const std::int64_t k : c.ints_attribute("ends").value_or(std::vector<std::int64_t>{}))
      ends.emplace_back(Expr(k));
    if (const auto given = c.ints_attribute("axes")) axes = *given;
  } else {
    starts = positions(c, 1, "the starts");
    ends = positions(c, 2, "the ends");
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
    const auto *start = std::get_if<Expr>(&starts[k]), *end = std::get_if<Expr>(&ends[k]);
    if (start == nullptr || end == nullptr) {
      if (steps[k] == 0) c.fail(errors::kInvalidNode, "a step is 0");
      x = measured_slice(c, x, axis, starts[k], ends[k], steps[k]);
      continue;
    }
    const Range range = sliced(x.sizes()[static_cast<std::size_t>(axis)], *start, *end, steps[k]);
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
