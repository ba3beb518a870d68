// The meaning of every instruction on single values: the reference for generated code.
//
// Floating point is computed in double and rounded once to the type (for + - * / sqrt this is the IEEE result
// of the type itself). Integers are two's complement and wrap. Casts of floats to integers truncate and
// saturate; NaN becomes 0.
#pragma once

#include <cstdint>

#include "ir/dtype.h"
#include "ir/graph.h"

namespace braid::ir {

// `d` for floating types, `i` for integers (u64 by bit pattern) and bool (0 or 1).
struct Scalar {
  double d = 0;
  std::int64_t i = 0;
};

Scalar to_scalar(const Literal& literal);
Literal to_literal(DType dtype, Scalar value);

// Wraps to the width of an integer type; for bool, value != 0.
std::int64_t wrap(DType dtype, std::int64_t value);

Scalar cast(DType from, DType to, Scalar value);
// The value of type `to` with the same bits; the types have one size. The bits of a NaN may change, as
// conversions make it quiet.
Scalar bitcast(DType from, DType to, Scalar value);
// Applies a unary, binary or ternary operation; `type` is that of the operands (for `where`, of the
// alternatives). Integer division by zero is a user error (BR0711). Not for load, constant, index, acc,
// check_index, cast and bitcast.
Scalar apply(OpCode code, DType type, Scalar a, Scalar b = {}, Scalar c = {});

// Folding with sum, prod, max, min. Sums and products of floats stay in double; the caller rounds at the end.
Scalar neutral(ReduceKind kind, DType type);
Scalar fold(ReduceKind kind, DType type, Scalar a, Scalar b);
Scalar rounded(DType type, Scalar value);
// A float to tf32's 11 significant bits: to nearest, ties away from zero.
Scalar in_tf32(Scalar value);

}  // namespace braid::ir
