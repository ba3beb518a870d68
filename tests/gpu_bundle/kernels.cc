#include "tests/gpu_bundle/kernels.h"

#include <fmt/format.h>

#include "tests/codegen_cuda/cases.h"

namespace braid::test {
namespace {

using ir::DType;
using ir::Expr;
using ir::OpCode;
using ir::ReduceKind;
using ir::TensorBox;

constexpr std::int64_t kWidth = 1024;
constexpr std::int64_t kMostRows = 1 << 18;  // so that an index of an element has 32 bits
constexpr std::int64_t kLeastMoved =
    256'000'000;  // bytes that a timed kernel reads and writes: several times an L2

// In the order of the graph, one node per operation: the passes fuse.
ir::Schedule finished(Net& net) {
  ir::Schedule s;
  const std::vector<ir::OpId> order = net.lowering.order();
  s.graph = std::move(net.graph);
  for (ir::OpId op : order) s.nodes.push_back(ir::ScheduleNode::single(op));
  return s;
}

// A function of rows of kWidth elements.
std::function<ir::Schedule()> of_rows(DType dtype, std::function<TensorBox(Net&, TensorBox)> f) {
  return [=] {
    Net net;
    const Expr rows = net.graph.add_dim("rows", {1, kMostRows});
    net.lowering.output("y", f(net, net.input("x", dtype, {rows, kWidth})));
    return finished(net);
  };
}

TensorBox add(Net& net, TensorBox x) {
  return net.binary(OpCode::add, x, net.input("other", x.dtype(), x.sizes()));
}
TensorBox gelu(Net& net, TensorBox x) {
  const auto f = [&](double v) { return net.lowering.scalar(x.dtype(), v); };
  TensorBox e = net.unary(OpCode::erf, net.binary(OpCode::mul, x, f(0.7071067811865476)));
  return net.binary(OpCode::mul, net.binary(OpCode::mul, x, f(0.5)), net.binary(OpCode::add, e, f(1)));
}
TensorBox transpose(Net& net, TensorBox x) { return net.lowering.permute(x, {1, 0}); }
TensorBox row_sum(Net& net, TensorBox x) { return net.lowering.reduce(x, ReduceKind::sum, {1}, false); }
TensorBox column_sum(Net& net, TensorBox x) { return net.lowering.reduce(x, ReduceKind::sum, {0}, false); }
TensorBox softmax(Net& net, TensorBox x) {
  TensorBox powers =
      net.unary(OpCode::exp, net.binary(OpCode::sub, x, net.lowering.reduce(x, ReduceKind::max, {1}, true)));
  return net.binary(OpCode::div, powers, net.lowering.reduce(powers, ReduceKind::sum, {1}, true));
}
TensorBox layer_norm(Net& net, TensorBox x) {
  const auto mean = [&](TensorBox v) {
    return net.binary(OpCode::div, net.lowering.reduce(v, ReduceKind::sum, {1}, true),
                      net.lowering.scalar(x.dtype(), static_cast<double>(kWidth)));
  };
  TensorBox centred = net.binary(OpCode::sub, x, mean(x));
  TensorBox variance = mean(net.binary(OpCode::mul, centred, centred));
  TensorBox inverse =
      net.unary(OpCode::rsqrt, net.binary(OpCode::add, variance, net.lowering.scalar(x.dtype(), 1e-3)));
  return net.binary(OpCode::mul, centred, inverse);
}

ir::Schedule product(DType dtype) {
  Net net;
  const Expr rows = net.graph.add_dim("rows", {1, 65536}), inner = net.graph.add_dim("inner", {1, 65536}),
             columns = net.graph.add_dim("columns", {1, 65536});
  net.lowering.output("y", net.lowering.matmul(net.input("x", dtype, {rows, inner}),
                                               net.input("w", dtype, {inner, columns})));
  return finished(net);
}
// Many small products, as in attention.
ir::Schedule batched_product(DType dtype) {
  Net net;
  const Expr batch = net.graph.add_dim("batch", {1, 4096}), rows = net.graph.add_dim("rows", {1, 4096});
  net.lowering.output("y", net.lowering.matmul(net.input("x", dtype, {batch, rows, 64}),
                                               net.input("w", dtype, {batch, 64, rows})));
  return finished(net);
}

// Returns the least power of two of rows with which a kernel moves kLeastMoved bytes, if it moves `moved`
// times the bytes of its input.
std::int64_t rows_to_time(DType dtype, std::int64_t moved) {
  std::int64_t rows = 1;
  while (rows * kWidth * moved * ir::size_of(dtype) < kLeastMoved) rows *= 2;
  return rows;
}

}  // namespace

std::vector<TimedKernel> timed_kernels() {
  std::vector<TimedKernel> out;
  struct OfRows {
    const char* name;
    TensorBox (*make)(Net&, TensorBox);
    std::int64_t moved;  // elements read and written per element of x; what a sum writes is little
  };
  constexpr OfRows kRows[] = {{"add", add, 3},
                              {"gelu", gelu, 2},
                              {"transpose", transpose, 2},
                              {"row_sum", row_sum, 1},
                              {"column_sum", column_sum, 1},
                              {"softmax", softmax, 2},
                              {"layer_norm", layer_norm, 2}};
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const auto named = [&](const char* name) { return fmt::format("kernel_{}_{}", name, to_string(dtype)); };
    for (const auto& [name, make, moved] : kRows)
      out.push_back(
          {named(name), of_rows(dtype, make), {{"rows", 3}}, {{"rows", rows_to_time(dtype, moved)}}});
    out.push_back({named("product"),
                   [=] { return product(dtype); },
                   {{"rows", 5}, {"inner", 40}, {"columns", 24}},
                   {{"rows", 4096}, {"inner", 4096}, {"columns", 4096}}});
    out.push_back({named("batched_product"),
                   [=] { return batched_product(dtype); },
                   {{"batch", 3}, {"rows", 9}},
                   {{"batch", 384}, {"rows", 512}}});
  }
  return out;
}

}  // namespace braid::test
