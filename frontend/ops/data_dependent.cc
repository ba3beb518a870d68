// Operators whose results have as many elements as the data say: Compress, NonZero, NonMaxSuppression and
// Unique. An extern kernel finds the elements; the step measures their number (OpContext::measured_size).
#include <algorithm>

#include "frontend/ops/constant_input.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

constexpr const char* kWhat = "the sizes of the result";  // names in messages what depends on values

std::int64_t most_of(const Expr& size) { return ir::bounds(size).max; }

TensorBox are_set(ir::Lowering& l, TensorBox x) {
  return l.pointwise({std::move(x)}, [](BodyBuilder& b, std::span<const ValueId> v) {
    const DType dtype = b.dtype(v[0]);
    return dtype == DType::boolean ? v[0] : b.binary(OpCode::ne, v[0], b.constant_of(dtype, 0));
  });
}

// The positions [1, kept] that a condition known at compile time keeps, all less than `size`.
TensorBox known_positions(OpContext& c, const Expr& size) {
  ir::Lowering& l = c.lowering();
  const std::vector<double> condition = constant_numbers(c, 1, kWhat);
  std::vector<double> kept;
  for (std::size_t k = 0; k < condition.size(); ++k) {
    if (condition[k] != 0) kept.push_back(static_cast<double>(k));
  }
  const auto end = kept.empty() ? 0 : static_cast<std::int64_t>(kept.back()) + 1;
  if (ir::provably_less(size, end))
    c.fail(errors::kShapeMismatch, fmt::format("element {} is kept of {}", end - 1, to_string(size)));
  l.require_equal(ir::max(size, end), size);
  return constant_table(c, "kept", DType::i64, {1, static_cast<std::int64_t>(kept.size())}, kept);
}

// The positions [rank, found] of the elements of input k that are set. `flags` are these elements.
TensorBox positions_of(OpContext& c, int k, const TensorBox& flags) {
  ir::Lowering& l = c.lowering();
  const TensorBox set = l.realize(flags);
  std::vector<int> axes(static_cast<std::size_t>(set.rank()));
  for (std::size_t d = 0; d < axes.size(); ++d) axes[d] = static_cast<int>(d);
  const Expr found = c.measured_size(k, kWhat, c.output_name(0), most_of(ir::product(set.sizes())), [&] {
    return l.reduce(l.cast(set, DType::i64), ir::ReduceKind::sum, axes, false);
  });
  return l.extern_call("non_zero", {set}, {{DType::i64, {set.rank(), found}}})[0];
}

void lower_compress(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(1) != 1)
    c.fail(errors::kShapeMismatch, fmt::format("the condition has rank {}, expected 1", c.rank(1)));
  const bool flat = !c.has_attribute("axis");
  const TensorBox x = flat ? l.reshape(c.input(0), {ir::product(c.sizes(0))}) : c.input(0);
  const auto axis = static_cast<std::size_t>(flat ? 0 : c.axis_attribute(c.rank(0), 0));
  // Elements beyond the axis must not be kept; those beyond the condition are not.
  const Expr size = x.sizes()[axis];
  const bool known = c.knows(1);
  const TensorBox positions = known ? known_positions(c, size) : positions_of(c, 1, are_set(l, c.input(1)));
  std::vector<Expr> sizes = x.sizes();
  sizes[axis] = positions.sizes()[1];
  c.set_output(0, l.generate(sizes, [&](BodyBuilder& b, std::span<const Expr> at) {
    std::vector<Expr> source(at.begin(), at.end());
    const Expr position[] = {0, at[axis]};
    const ValueId kept = l.load(b, positions, position);
    source[axis] = b.as_index(known ? kept : b.check_index(kept, size));
    return l.load(b, x, source);
  }));
}

void lower_non_zero(OpContext& c) {
  ir::Lowering& l = c.lowering();
  TensorBox x = c.input(0);
  if (c.rank(0) == 0) {  // counts as one row, without positions
    x = l.unsqueeze(x, 0);
    const TensorBox positions = positions_of(c, 0, are_set(l, x));
    c.set_output(0, l.slice(positions, 0, 0, 0));
    return;
  }
  c.set_output(0, positions_of(c, 0, are_set(l, x)));
}

// The scalar that input k has, or a default.
TensorBox scalar_or(OpContext& c, int k, DType dtype, double absent) {
  ir::Lowering& l = c.lowering();
  if (!c.has_input(k)) return l.scalar(dtype, absent);
  if (!ir::product(c.sizes(k)).is_constant(1))
    c.fail(errors::kShapeMismatch, fmt::format("input {} has more than one element", k));
  return l.reshape(l.cast(c.input(k), dtype), {});
}

void lower_non_max_suppression(OpContext& c) {
  ir::Lowering& l = c.lowering();
  if (c.rank(0) != 3 || c.rank(1) != 3 || !c.size(0, 2).is_constant(4))
    c.fail(errors::kShapeMismatch, "expected boxes [batch, n, 4] and scores [batch, classes, n]");
  l.require_equal(c.size(0, 0), c.size(1, 0));
  l.require_equal(c.size(0, 1), c.size(1, 2));
  const Expr per_class =
      c.has_input(2) && c.constant_scalar(2)
          ? ir::min(c.size(1, 2), static_cast<std::int64_t>(std::clamp(*c.constant_scalar(2), 0.0, 1e15)))
          : c.size(1, 2);
  const Expr room = c.has_input(2) ? c.size(1, 0) * c.size(1, 1) * per_class : Expr(0);
  const TensorBox boxes = l.view(c.input(0), {c.size(1, 0), c.size(1, 2), 4},
                                 {l.pool().index(0), l.pool().index(1), l.pool().index(2)});
  const std::vector<TensorBox> found =
      l.extern_call("non_max_suppression",
                    {boxes, c.input(1), scalar_or(c, 2, DType::i64, 0), scalar_or(c, 3, DType::f32, 0),
                     scalar_or(c, 4, DType::f32, 0)},
                    {{DType::i64, {room, 3}}, {DType::i64, {}}},
                    {{"center", std::int64_t{c.int_attribute("center_point_box", 0) != 0}},
                     {"filter", std::int64_t{c.has_input(4)}}});
  int unknown = 0;
  while (unknown + 1 < c.input_count() && (!c.has_input(unknown) || c.knows(unknown))) ++unknown;
  const Expr count =
      c.measured_size(unknown, kWhat, c.output_name(0), most_of(room), [&] { return found[1]; });
  c.set_output(0, l.slice(found[0], 0, 0, count));
}

void lower_unique(OpContext& c) {
  ir::Lowering& l = c.lowering();
  const DType dtype = c.dtype(0), compute = dtype == DType::boolean ? DType::u8 : compute_type(dtype);
  std::vector<Expr> sizes = c.sizes(0);
  std::size_t axis = 0;
  if (c.has_attribute("axis"))
    axis = static_cast<std::size_t>(c.axis_attribute(c.rank(0), 0));
  else
    sizes = {ir::product(sizes)};
  const std::span<const Expr> all(sizes);
  const Expr outer = ir::product(all.first(axis)), n = sizes[axis],
             inner = ir::product(all.subspan(axis + 1));
  const std::vector<TensorBox> found =
      l.extern_call("unique", {l.reshape(l.cast(c.input(0), compute), {outer, n, inner})},
                    {{compute, {outer * n * inner}},
                     {DType::i64, {n}},
                     {DType::i64, {n}},
                     {DType::i64, {n}},
                     {DType::i64, {}}},
                    {{"sorted", std::int64_t{c.int_attribute("sorted", 1) != 0}}});
  const Expr count = c.measured_size(0, kWhat, c.output_name(0), most_of(n), [&] { return found[4]; });
  sizes[axis] = count;
  const TensorBox values = l.slice(found[0], 0, 0, outer * count * inner);
  c.set_output(0, l.cast(l.reshape(values, sizes), dtype));
  c.set_output(1, l.slice(found[1], 0, 0, count));
  c.set_output(2, found[3]);
  c.set_output(3, l.slice(found[2], 0, 0, count));
}

constexpr const char* kData = "the size of the result depends on values";

}  // namespace

std::span<const OpSpec> data_dependent_ops() {
  static const OpSpec ops[] = {
      {"", "Compress", 9, kNewestOpset, kAllTypes, lower_compress, work::gather(0), rule::kCompress, kNoState,
       kNoSizes},
      {"", "NonMaxSuppression", 10, kNewestOpset, TypeSet{DType::f32}, lower_non_max_suppression,
       work::constant(), sharding::replicated(kData), kNoState, kNoSizes},
      {"", "NonZero", 9, kNewestOpset, kAllTypes, lower_non_zero, work::constant(),
       sharding::replicated(kData), kNoState, kNoSizes},
      {"", "Unique", 11, kNewestOpset, kAllTypes, lower_unique, work::constant(), sharding::replicated(kData),
       kNoState, kNoSizes},
  };
  return ops;
}

}  // namespace braid::frontend
