// Floating-point values of a loop body with operators, so that formulas with many steps read as such.
#pragma once

#include "frontend/ops/common.h"

namespace braid::frontend {

struct Real {
  BodyBuilder* b;
  ValueId v;
};

inline Real real(BodyBuilder& b, Expr e, DType dtype = DType::f64) { return {&b, number(b, e, dtype)}; }
// A constant of the type of `like`.
inline Real literal(Real like, double x) { return {like.b, like.b->constant_of(like.b->dtype(like.v), x)}; }
inline Real apply(OpCode code, Real x) { return {x.b, x.b->unary(code, x.v)}; }
inline Real apply(OpCode code, Real x, Real y) { return {x.b, x.b->binary(code, x.v, y.v)}; }

inline Real operator+(Real x, Real y) { return apply(OpCode::add, x, y); }
inline Real operator-(Real x, Real y) { return apply(OpCode::sub, x, y); }
inline Real operator*(Real x, Real y) { return apply(OpCode::mul, x, y); }
inline Real operator/(Real x, Real y) { return apply(OpCode::div, x, y); }
inline Real operator+(Real x, double y) { return x + literal(x, y); }
inline Real operator-(Real x, double y) { return x - literal(x, y); }
inline Real operator*(Real x, double y) { return x * literal(x, y); }
inline Real operator/(Real x, double y) { return x / literal(x, y); }
inline Real operator-(double x, Real y) { return literal(y, x) - y; }

// Conditions.
inline ValueId operator==(Real x, double y) { return x.b->binary(OpCode::eq, x.v, literal(x, y).v); }
inline ValueId operator<(Real x, Real y) { return x.b->binary(OpCode::lt, x.v, y.v); }
inline ValueId operator<=(Real x, Real y) { return x.b->binary(OpCode::le, x.v, y.v); }

inline Real select(ValueId condition, Real a, Real b) { return {a.b, a.b->where(condition, a.v, b.v)}; }
inline Real select(ValueId condition, double a, Real b) { return select(condition, literal(b, a), b); }

// A position in [0, size), whatever x is.
inline Expr clamped_index(Real x, Expr size) {
  BodyBuilder& b = *x.b;
  const ValueId low = b.binary(OpCode::max, b.cast(x.v, DType::i64), b.constant(DType::i64, std::int64_t{0}));
  return b.as_index(b.binary(OpCode::min, low, b.index(size - 1)));
}

}  // namespace braid::frontend
