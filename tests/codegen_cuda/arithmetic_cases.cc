// Quotients, roots and functions that have a cheaper form, in programs with and without it.
#include <fmt/format.h>

#include "tests/codegen_cuda/cases.h"

namespace braid::test {
namespace {

using ir::DType;
using ir::OpCode;
using ir::ReduceKind;
using ir::TensorBox;

// Rows divided by their sums, which may be 0.
ir::Schedule quotients(DType dtype) {
  Net net;
  const TensorBox x = net.input("x", dtype, {6, 40});
  const TensorBox sum = net.lowering.reduce(x, ReduceKind::sum, {1}, true);
  net.lowering.output("by_row", net.binary(OpCode::div, x, sum));
  return net.finish_fused();
}

ir::Schedule literal_quotients(DType dtype) {
  Net net;
  const TensorBox x = net.input("x", dtype, {6, 40});
  net.lowering.output("by_three", net.binary(OpCode::div, x, net.lowering.scalar(dtype, 3)));
  net.lowering.output("by_eight", net.binary(OpCode::div, x, net.lowering.scalar(dtype, -8)));
  return net.finish();
}

// Rows divided by given numbers, points in packs along the rows.
ir::Schedule broadcast_quotients(DType dtype) {
  Net net;
  const TensorBox x = net.input("x", dtype, {16, 40}), y = net.input("y", dtype, {16, 1});
  net.lowering.output("q", net.binary(OpCode::div, x, y));
  return net.finish();
}

// x / 2 * (1 + erf(x / sqrt 2)) and exp(x), rounded at the end, and a root.
ir::Schedule functions(DType dtype) {
  Net net;
  const TensorBox x = net.input("x", dtype, {6, 40});
  const auto f = [&](double v) { return net.lowering.scalar(DType::f32, v); };
  const TensorBox wide = net.lowering.cast(x, DType::f32);
  const TensorBox erf = net.unary(OpCode::erf, net.binary(OpCode::mul, wide, f(0.7071067811865476)));
  const TensorBox gelu =
      net.binary(OpCode::mul, net.binary(OpCode::mul, wide, f(0.5)), net.binary(OpCode::add, erf, f(1)));
  net.lowering.output("gelu", net.lowering.cast(gelu, dtype));
  net.lowering.output("exp", net.lowering.cast(net.unary(OpCode::exp, wide), dtype));
  net.lowering.output("root", net.unary(OpCode::sqrt, net.unary(OpCode::abs, x)));
  return net.finish();
}

}  // namespace

void add_arithmetic_cases(std::vector<Case>& out) {
  for (const bool precise : {false, true}) {
    const auto add = [&](const char* name, DType dtype, ir::Schedule (*build)(DType)) {
      codegen::cuda::CudaOptions options;
      options.precise = precise;
      out.push_back({fmt::format("{}_{}{}", name, ir::to_string(dtype), precise ? "_precise" : ""),
                     [=] { return build(dtype); }, options});
    };
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      add("quotients", dtype, quotients);
      add("literal_quotients", dtype, literal_quotients);
      add("broadcast_quotients", dtype, broadcast_quotients);
      add("functions", dtype, functions);
    }
  }
}

}  // namespace braid::test
