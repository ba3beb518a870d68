#include "frontend/shape_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "ir/error_numbers.h"

namespace braid::frontend {

using ir::Expr;

std::vector<Expr> reshaped(const std::vector<Expr>& sizes, std::vector<Expr> target, bool allow_zero) {
  std::optional<std::size_t> free;
  Expr known = 1, rest = 1;  // products of the sizes given, and of the input's that are not copied
  std::vector<bool> copied(sizes.size(), false);
  bool empty = false;  // a size of 0 is copied
  for (std::size_t k = 0; k < target.size(); ++k) {
    if (target[k].is_constant(0) && !allow_zero) {
      if (k >= sizes.size()) {
        throw ShapeRuleError{
            errors::kShapeMismatch,
            fmt::format("size {} is 0, but the input has only {} dimensions to copy from", k, sizes.size()),
            ""};
      }
      target[k] = sizes[k];
      copied[k] = true;
      empty = empty || sizes[k].is_constant(0);
    } else if (target[k].is_constant(-1)) {
      if (free)
        throw ShapeRuleError{errors::kShapeMismatch, "two sizes are -1", "at most one size may be -1"};
      free = k;
    } else if (ir::bounds(target[k]).max < 0) {
      throw ShapeRuleError{errors::kShapeMismatch, fmt::format("size {} is {}", k, to_string(target[k])), ""};
    } else {
      known = known * target[k];
    }
  }
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (!copied[k]) rest = rest * sizes[k];
  }
  if (free) {
    if (known.is_constant(0))
      throw ShapeRuleError{errors::kShapeMismatch, "size -1 is ambiguous next to a size 0", ""};
    const std::optional<Expr> exact = ir::divide_exactly(rest, known);
    if (!exact && known.is_constant() && rest.is_constant()) {
      throw ShapeRuleError{
          errors::kShapeMismatch,
          fmt::format("{} elements cannot be reshaped to [{}]", to_string(rest), to_string(known) + ", -1"),
          ""};
    }
    // If divisibility cannot be proved, the guard that Lowering::reshape adds requires it.
    target[*free] = exact ? *exact : ir::floor_div(rest, ir::max(known, 1));
  } else if (!empty && known.is_constant() && rest.is_constant() && !(known == rest)) {
    throw ShapeRuleError{
        errors::kShapeMismatch,
        fmt::format("{} elements cannot be reshaped to {}", to_string(rest), to_string(known)), ""};
  }
  return target;
}

namespace {

// "To the end" is often written as the largest or smallest integer; arithmetic on sizes must not overflow
// with it.
Expr tamed(Expr e) {
  if (!e.is_constant()) return e;
  constexpr std::int64_t kFar = std::int64_t{1} << 60;
  return std::clamp(e.constant(), -kFar, kFar);
}

// 1: never negative, -1: always negative.
int sign(Expr e) {
  if (ir::provably_non_negative(e)) return 1;
  if (ir::bounds(e).max < 0) return -1;
  return 0;
}

Expr from_start(Expr position, Expr size) {
  switch (sign(position)) {
    case 1:
      return position;
    case -1:
      return position + size;
    default:
      throw ShapeRuleError{
          errors::kDataDependentSize,
          fmt::format("whether the position {} is negative depends on the sizes", to_string(position)),
          "a position must count from the same end for all sizes within bounds"};
  }
}

}  // namespace

namespace {

// A step that is never taken becomes 1, so products of the steps of several slices stay below the sizes.
// `first` is clamped to 0 for ranges without elements, which have no position before the first one.
Range stepped(Expr first, Expr count, std::int64_t step) {
  if (ir::bounds(first).min < 0) first = ir::max(first, 0);
  return {first, count, ir::bounds(count).max <= 1 ? 1 : step};
}

}  // namespace

Range sliced(Expr size, Expr start, Expr end, std::int64_t step) {
  if (step == 0) throw ShapeRuleError{errors::kInvalidAttribute, "a step is 0", ""};
  constexpr std::int64_t kFar = std::int64_t{1} << 60;
  step = std::clamp(step, -kFar, kFar);
  const Expr from = from_start(tamed(start), size), to = from_start(tamed(end), size);
  if (step > 0) {
    const Expr first = ir::min(ir::max(from, 0), size), last = ir::min(ir::max(to, 0), size);
    return stepped(first, ir::max(ir::ceil_div(last - first, step), 0), step);
  }
  // Backwards: a start lies in [0, size - 1], an end in [-1, size - 1].
  const Expr first = ir::min(ir::max(from, 0), size - 1), last = ir::min(ir::max(to, -1), size - 1);
  return stepped(first, ir::max(ir::ceil_div(first - last, -step), 0), step);
}

Expr range_count(Expr start, Expr limit, std::int64_t delta) {
  if (delta == 0) throw ShapeRuleError{errors::kInvalidNode, "delta is 0", ""};
  return ir::max(delta > 0 ? ir::ceil_div(limit - start, delta) : ir::ceil_div(start - limit, -delta), 0);
}

Expr wrapped_index(Expr index, Expr size) {
  const Expr wrapped = from_start(index, size);
  if (ir::bounds(wrapped).max < 0 || ir::bounds(size - wrapped).max <= 0) {
    throw ShapeRuleError{
        errors::kIndexOutOfRange,
        fmt::format("index {} is out of range for a dimension of size {}", to_string(index), to_string(size)),
        ""};
  }
  return wrapped;
}

}  // namespace braid::frontend
