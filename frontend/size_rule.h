// How models compute sizes with an operator: a column of its row (op_registry.h). Its results are then known
// while compiling, as expressions over dimensions.
#pragma once

#include <optional>

namespace braid::frontend {

class OpContext;
struct Fractions;
struct ShapeValues;

// It has no default, so a row without one does not compile.
struct SizeRule {
  using Values = std::optional<ShapeValues> (*)(OpContext&);
  using Floats = std::optional<Fractions> (*)(OpContext&);

  constexpr SizeRule(Values integers, Floats floats = nullptr, bool all_inputs = true)
      : values(integers), fractions(floats), needs_values(all_inputs) {}

  Values values;      // of integers (shape_values.h); nullptr: unknown
  Floats fractions;   // of floats (size_fractions.h), beside the tensor itself; nullptr: unknown
  bool needs_values;  // whether `values` is only called if those of all inputs are known
};

// Models do not compute sizes with it, or only the running program does.
inline constexpr SizeRule kNoSizes = {nullptr};

namespace size_rule {

// shape_values.cc
extern const SizeRule kAbs, kAdd, kAnd, kCast, kCastLike, kCeil, kConcat, kConstantOfShape, kDiv, kEqual,
    kExpand, kFloor, kGather, kGreater, kGreaterOrEqual, kIdentity, kLess, kLessOrEqual, kMax, kMin, kMod,
    kMul, kNeg, kNot, kOr, kRange, kReduceMax, kReduceMin, kReduceProd, kReduceSum, kReshape, kShape, kSize,
    kSlice, kSplit, kSqueeze, kSub, kSum, kTranspose, kUnsqueeze, kWhere;

}  // namespace size_rule

}  // namespace braid::frontend
