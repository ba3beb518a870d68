// The meaning of every instruction on single values: the definition that generated code is compared with.
//
// Floating point: computed in double and rounded once to the type (for + - * / sqrt this is the IEEE result
// of the type itself). Integers: two's complement, wrapping. Casts of floats to integers truncate and
// saturate, NaN becomes 0.
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

// Wraps to the width of an integer type; bool: not 0.
std::int64_t wrap(DType dtype, std::int64_t value);

Scalar cast(DType from, DType to, Scalar value);
// Unary, binary and ternary operations; `type` is that of the operands (for where: of the alternatives). A
// user error (BR0711) for an integer division by zero. Not for load, constant, index, acc, check_index and
// cast.
Scalar apply(OpCode code, DType type, Scalar a, Scalar b = {}, Scalar c = {});

// Folding with sum, prod, max, min. Sums and products of floats are kept in double and rounded by the caller
// at the end.
Scalar neutral(ReduceKind kind, DType type);
Scalar fold(ReduceKind kind, DType type, Scalar a, Scalar b);
Scalar rounded(DType type, Scalar value);

}  // namespace braid::ir
