#include <fmt/format.h>

#include "analysis/costs/cost_model.h"
#include "passes/default_passes.h"
#include "passes/runner.h"
#include "passes/split_reductions.h"
#include "tests/codegen_cuda/cases.h"

namespace braid::test {
namespace {

using ir::BodyBuilder;
using ir::DType;
using ir::Expr;
using ir::OpCode;
using ir::ReduceKind;
using ir::TensorBox;
using ir::ValueId;

constexpr ReduceKind kKinds[] = {ReduceKind::sum, ReduceKind::prod, ReduceKind::max, ReduceKind::min};

ir::Schedule every_reduction(DType dtype) {
  Net net;
  TensorBox x = net.input("x", dtype, {3, 5, 7});
  for (ReduceKind kind : kKinds) {
    if (dtype == DType::boolean && (kind == ReduceKind::sum || kind == ReduceKind::prod)) continue;
    const std::string name(to_string(kind));
    net.lowering.output(name + "_last", net.lowering.reduce(x, kind, {2}, false));
    net.lowering.output(name + "_middle", net.lowering.reduce(x, kind, {1}, true));
    net.lowering.output(name + "_all", net.lowering.reduce(x, kind, {0, 1, 2}, false));
  }
  return net.finish();
}

// Longer than a warp takes, so a block per row; the length is only known at run time.
ir::Schedule long_rows() {
  Net net;
  const Expr n = net.graph.add_dim("n", {1, 3000});
  TensorBox x = net.input("x", DType::f32, {6, n});
  net.lowering.output("sum", net.lowering.reduce(x, ReduceKind::sum, {1}, false));
  net.lowering.output("max", net.lowering.reduce(net.unary(OpCode::abs, x), ReduceKind::max, {1}, false));
  net.lowering.output("columns", net.lowering.reduce(x, ReduceKind::sum, {0}, false));
  return net.finish();
}

// Rows of 77 halves at a pitch of 80: the last pack of each is not full.
ir::Schedule sliced_rows() {
  Net net;
  TensorBox x = net.lowering.slice(net.input("x", DType::f16, {6, 80}), 1, 0, 77);
  net.lowering.output("sum", net.lowering.reduce(net.unary(OpCode::cos, x), ReduceKind::sum, {1}, false));
  return net.finish();
}

TensorBox softmax(Net& net, TensorBox x, int axis) {
  TensorBox highest = net.lowering.reduce(x, ReduceKind::max, {axis}, true);
  TensorBox powers = net.unary(OpCode::exp, net.binary(OpCode::sub, x, highest));
  TensorBox sum = net.lowering.reduce(powers, ReduceKind::sum, {axis}, true);
  return net.binary(OpCode::div, powers, sum);
}

ir::Schedule fused_softmax(DType dtype, Expr rows_max, Expr columns_max, bool realize_powers) {
  Net net;
  const Expr rows = net.graph.add_dim("rows", {1, rows_max.constant()}),
             columns = net.graph.add_dim("columns", {1, columns_max.constant()});
  TensorBox x = net.input("x", dtype, {2, rows, columns});
  net.lowering.set_origin("/attention/Softmax");
  TensorBox highest = net.lowering.reduce(x, ReduceKind::max, {2}, true);
  TensorBox powers = net.unary(OpCode::exp, net.binary(OpCode::sub, x, highest));
  if (realize_powers) powers = net.lowering.realize(powers);  // a row of shared memory
  TensorBox sum = net.lowering.reduce(powers, ReduceKind::sum, {2}, true);
  net.lowering.output("y", net.binary(OpCode::div, powers, sum));
  return net.finish_fused();
}

ir::Schedule fused_layernorm(std::int64_t hidden) {
  Net net;
  const Expr batch = net.graph.add_dim("batch", {1, 8});
  TensorBox x = net.input("x", DType::f32, {batch, 4, hidden});
  TensorBox scale = net.constant("scale", DType::f32, {hidden}, 1),
            bias = net.constant("bias", DType::f32, {hidden}, 2);
  net.lowering.set_origin("/ln/LayerNormalization");
  const TensorBox count = net.lowering.scalar(DType::f32, static_cast<double>(hidden));
  TensorBox mean = net.binary(OpCode::div, net.lowering.reduce(x, ReduceKind::sum, {2}, true), count);
  TensorBox centred = net.lowering.realize(net.binary(OpCode::sub, x, mean));
  TensorBox variance = net.binary(
      OpCode::div, net.lowering.reduce(net.binary(OpCode::mul, centred, centred), ReduceKind::sum, {2}, true),
      count);
  TensorBox inverse =
      net.unary(OpCode::rsqrt, net.binary(OpCode::add, variance, net.lowering.scalar(DType::f32, 1e-5)));
  net.lowering.output(
      "y", net.binary(OpCode::add, net.binary(OpCode::mul, net.binary(OpCode::mul, centred, inverse), scale),
                      bias));
  return net.finish_fused();
}

// Elementwise members only: values in registers, one of them also stored.
ir::Schedule fused_points() {
  Net net;
  TensorBox x = net.input("x", DType::f16, {5, 6}), y = net.input("y", DType::f16, {5, 6});
  TensorBox a = net.lowering.realize(net.binary(OpCode::add, x, y));
  TensorBox b = net.lowering.realize(net.unary(OpCode::abs, a));
  net.lowering.output("a", a);
  net.lowering.output("c", net.binary(OpCode::mul, a, b));
  return net.finish_fused();
}

// A member that folds into a row (several kept indices per outer point), read backwards by the next one.
ir::Schedule fused_rows_of_folds() {
  Net net;
  TensorBox x = net.input("x", DType::f32, {4, 6, 5});
  TensorBox sums = net.lowering.realize(net.lowering.reduce(x, ReduceKind::sum, {2}, false));
  TensorBox total = net.lowering.realize(net.lowering.reduce(sums, ReduceKind::sum, {1}, true));
  net.lowering.output("y", net.binary(OpCode::sub, net.lowering.slice(sums, 1, 5, 6, -1), total));
  return net.finish_fused();
}

// Sums over columns, of which there are too few for a thread each: one and two dimensions, and ends of packs.
ir::Schedule column_sums(DType dtype) {
  Net net;
  const Expr rows = net.graph.add_dim("rows", {1, 200});
  const TensorBox even = net.input("even", dtype, {rows, 512}), odd = net.input("odd", dtype, {rows, 301}),
                  planes = net.input("planes", dtype, {5, rows, 3, 104});
  net.lowering.output("even_sum", net.lowering.reduce(even, ReduceKind::sum, {0}, false));
  net.lowering.output("odd_max", net.lowering.reduce(odd, ReduceKind::max, {0}, false));
  net.lowering.output("planes_sum", net.lowering.reduce(planes, ReduceKind::sum, {0, 1}, false));
  net.lowering.output("rows_of_planes",
                      net.lowering.reduce(net.unary(OpCode::abs, planes), ReduceKind::min, {1}, true));
  return net.finish();
}

// Mean and variance of columns, and what follows, in one kernel; one member reads memory between the folds.
ir::Schedule fused_columns() {
  Net net;
  const Expr rows = net.graph.add_dim("rows", {1, 200});
  const TensorBox x = net.input("x", DType::f32, {2, rows, 300}), w = net.input("w", DType::f32, {300});
  const TensorBox count = net.lowering.scalar(DType::f32, 0.125);
  const TensorBox mean = net.lowering.realize(
      net.binary(OpCode::mul, net.lowering.reduce(x, ReduceKind::sum, {1}, false), count));
  const TensorBox centred = net.binary(OpCode::sub, x, net.lowering.reshape(mean, {2, 1, 300}));
  const TensorBox variance = net.lowering.realize(
      net.lowering.reduce(net.binary(OpCode::mul, centred, centred), ReduceKind::sum, {1}, false));
  net.lowering.output("mean", mean);
  net.lowering.output("y", net.binary(OpCode::add, net.unary(OpCode::sqrt, variance), w));
  return net.finish_fused();
}

// Sums in parts, as on a machine on which only the number of threads matters: of columns, whose last piece
// goes beyond the end, and of a row.
ir::Schedule split_sums() {
  Net net;
  const Expr rows = net.graph.add_dim("rows", {1, 3000});
  const TensorBox x = net.input("x", DType::f16, {rows, 320}), y = net.input("y", DType::f32, {2, rows, 4});
  net.lowering.output("columns", net.lowering.reduce(x, ReduceKind::sum, {0}, false));
  net.lowering.output("highest", net.lowering.reduce(net.unary(OpCode::cos, x), ReduceKind::max, {0}, false));
  net.lowering.output("all", net.lowering.reduce(y, ReduceKind::sum, {0, 1, 2}, false));
  ir::Schedule schedule = net.finish();
  schedule.plan.reset();
  analysis::Machine machine = analysis::load_machine("h200");
  machine.launch_us = 1e-6;
  passes::PassContext context;
  context.costs = std::make_shared<const analysis::CostModel>(std::move(machine), analysis::CostOptions{});
  passes::SplitReductions{.threads = 16, .least = 4}.run(schedule, context);
  passes::run_passes(schedule, passes::default_passes());
  return schedule;
}

}  // namespace

void add_reduction_cases(std::vector<Case>& out) {
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32,
                      DType::i64, DType::u8, DType::u16, DType::u32, DType::u64, DType::boolean}) {
    out.push_back(
        {fmt::format("reductions_{}", to_string(dtype)), [dtype] { return every_reduction(dtype); }});
  }
  out.push_back({"long_rows", long_rows});
  out.push_back({"sliced_rows", sliced_rows});
  out.push_back({"softmax_f32", [] { return fused_softmax(DType::f32, 8, 300, false); }});
  out.push_back({"softmax_f16", [] { return fused_softmax(DType::f16, 8, 300, false); }});
  out.push_back({"softmax_row", [] { return fused_softmax(DType::f32, 8, 300, true); }});
  out.push_back({"softmax_large_row", [] { return fused_softmax(DType::f32, 8, 20000, true); }});
  out.push_back({"softmax_spilled",
                 [] { return fused_softmax(DType::f32, 8, 20000, true); },
                 {.max_shared_bytes = 64}});
  out.push_back({"softmax_two_variants", [] { return fused_softmax(DType::f32, 8, 30000, true); }});
  out.push_back({"softmax_two_variants_f16",
                 [] { return fused_softmax(DType::f16, 600, 40000, true); },
                 {.portable_shared_bytes = 64}});
  out.push_back({"layernorm", [] { return fused_layernorm(96); }});
  out.push_back({"layernorm_long", [] { return fused_layernorm(2056); }});
  for (DType dtype : {DType::f32, DType::f16, DType::u8, DType::i64})
    out.push_back({fmt::format("column_sums_{}", to_string(dtype)), [dtype] { return column_sums(dtype); }});
  out.push_back({"fused_columns", fused_columns});
  out.push_back({"split_sums", split_sums});
  out.push_back({"fused_points", fused_points});
  out.push_back({"fused_rows_of_folds", fused_rows_of_folds});
  out.push_back({"softmax_unfused", [] {
                   Net net;
                   TensorBox x = net.input("x", DType::f32, {6, 40});
                   net.lowering.output("y", softmax(net, x, 1));
                   return net.finish();
                 }});
}

}  // namespace braid::test
