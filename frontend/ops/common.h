// Helpers shared by several operator families.
#pragma once

#include <initializer_list>
#include <vector>

#include "frontend/op_context.h"
#include "frontend/op_registry.h"

namespace braid::frontend {

using ir::BodyBuilder;
using ir::DType;
using ir::Expr;
using ir::OpCode;
using ir::TensorBox;
using ir::ValueId;

// Half types compute in f32, everything else in its own type.
inline DType compute_type(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
}

inline TensorBox unary(ir::Lowering& lowering, OpCode code, TensorBox x) {
  return lowering.pointwise(
      {std::move(x)}, [code](BodyBuilder& b, std::span<const ValueId> v) { return b.unary(code, v[0]); });
}
inline TensorBox binary(ir::Lowering& lowering, OpCode code, TensorBox x, TensorBox y) {
  return lowering.pointwise({std::move(x), std::move(y)}, [code](BodyBuilder& b, std::span<const ValueId> v) {
    return b.binary(code, v[0], v[1]);
  });
}

// The row of an operator of ONNX's own that computes each element from those at its place, with these flops.
inline OpSpec elementwise(const char* name, int first_version, TypeSet types, LowerFn lower, double flops,
                          const sharding::Rule& rule, SizeRule sizes) {
  return {"", name, first_version, kNewestOpset, types, lower, work::pointwise(flops), rule, kNoState, sizes};
}

// Output 0 is f of every element of input 0, computed in compute_type and rounded once.
template <class F>
void set_elementwise(OpContext& c, const F& f) {
  const DType dtype = c.dtype(0);
  c.set_output(0, c.lowering().pointwise({c.input(0)}, [&](BodyBuilder& b, std::span<const ValueId> v) {
    return b.cast(f(b, b.cast(v[0], compute_type(dtype))), dtype);
  }));
}

// Axes axis, axis + 1, ..., rank - 1.
inline std::vector<int> axes_from(int axis, int rank) {
  std::vector<int> axes;
  for (int k = axis; k < rank; ++k) axes.push_back(k);
  return axes;
}

// The number of elements along the axes.
inline Expr extent(const std::vector<Expr>& sizes, const std::vector<int>& axes) {
  Expr n = 1;
  for (int a : axes) n = n * sizes[static_cast<std::size_t>(a)];
  return n;
}

// An expression as a value of any type.
inline ValueId number(BodyBuilder& body, Expr e, DType dtype) {
  if (e.is_constant()) return body.constant_of(dtype, static_cast<double>(e.constant()));
  return is_float(dtype) ? body.cast(body.index(e), dtype) : body.index(e, dtype);
}

}  // namespace braid::frontend
