// Follows small float tensors that are computed from sizes, as fractions. Models write ceil(size / 2) as
// Cast, Div, Ceil and Cast back to integers, which are then the sizes of a Resize or a Pad.
//
// A fraction is only followed where floating-point arithmetic gives the same sizes. A numerator below 2^24
// (2^53 for f64) over a power of two is exact. Over another divisor it is rounded, but so little that floor,
// ceiling and integral part are those of the fraction.
#pragma once

#include <optional>

#include "frontend/op_context.h"
#include "frontend/size_rule.h"

namespace braid::frontend {

// The elements of a float constant, or of a tensor that was computed from sizes.
std::optional<Fractions> fractions_of(Value& value);

// Returns the elements of the node's first output. nullopt if the rule has no fractions, an input is unknown,
// or all are constants. The tensor is computed as any other, too.
std::optional<Fractions> size_fractions(OpContext& context, const SizeRule& rule);

// The fractions of single operators, for their rules.
namespace fractions {
std::optional<Fractions> add(OpContext&c), subtract(OpContext&c), multiply(OpContext&c), divide(OpContext&c),
    ceil(OpContext&c), floor(OpContext&c), cast(OpContext&c), cast_like(OpContext&c), concat(OpContext&c),
    reshaped(OpContext&c);
}

// fraction rounded up, or towards zero (nullopt if its sign is unknown).
ir::Expr rounded_up(const Fraction& fraction);
std::optional<ir::Expr> truncated(const Fraction& fraction);

// a - b, a / b: nullopt if arithmetic in `dtype` would not be exact, or if b is not a number (for a / b).
std::optional<Fraction> difference(const Fraction& a, const Fraction& b, ir::DType dtype);
std::optional<Fraction> quotient(const Fraction& a, const Fraction& b, ir::DType dtype);

}  // namespace braid::frontend
