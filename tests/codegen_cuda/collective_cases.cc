#include <fmt/format.h>

#include <numeric>

#include "driver/compile.h"
#include "ir/parser.h"
#include "tests/codegen_cuda/cases.h"
#include "tests/support/coordinates.h"

namespace braid::test {
namespace {

using codegen::cuda::EdgeReason;
using codegen::cuda::PlantedFault;
using ir::DType;
using ir::GroupId;
using ir::OpCode;
using ir::ReduceKind;
using ir::TensorBox;

GroupId everyone(Net& net, int ranks) {
  net.graph.ranks = ranks;
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return net.graph.add_group("world", all);
}

// Two matrix products with an AllReduce after each, as a tensor-parallel layer has them; a second collective
// takes over the memory of the first.
ir::Schedule layers(int ranks) {
  Net net;
  const GroupId world = everyone(net, ranks);
  const ir::Expr rows = net.graph.add_dim("rows", {1, 6});
  TensorBox x = net.input("x", DType::f32, {rows, 8});
  for (int layer = 0; layer < 3; ++layer) {
    net.lowering.set_origin(fmt::format("/layer.{}/MatMul", layer));
    TensorBox part =
        net.lowering.matmul(x, net.constant(fmt::format("w{}", layer), DType::f32, {8, 8}, layer));
    net.lowering.set_origin(fmt::format("/layer.{}/AllReduce", layer));
    TensorBox sum = net.lowering.all_reduce(net.unary(OpCode::sign, part), world, ReduceKind::sum);
    net.lowering.set_origin(fmt::format("/layer.{}/Add", layer));
    x = net.binary(OpCode::add, x, sum);
  }
  net.lowering.output("y", x);
  return net.finish();
}

ir::Schedule every_collective(int ranks, DType dtype) {
  Net net;
  const GroupId world = everyone(net, ranks);
  TensorBox x = net.input("x", dtype, {4 * ranks, 3});
  const auto out = [&](const char* name, TensorBox t) { net.lowering.output(name, t); };
  net.lowering.set_origin("gather");
  const OpCode touch = dtype == DType::boolean ? OpCode::logical_not : OpCode::neg;
  out("gathered", net.unary(touch, net.lowering.all_gather(x, world, 1)));
  net.lowering.set_origin("gather_first");
  out("gathered_first", net.lowering.all_gather(x, world, 0));
  net.lowering.set_origin("broadcast");
  out("broadcast", net.lowering.broadcast(x, world, ranks - 1));
  net.lowering.set_origin("all_to_all");
  out("dealt", net.lowering.all_to_all(x, world));
  // NCCL reduces no 16-bit integers, and of truth values only the greatest and the least.
  if (dtype != DType::i16 && dtype != DType::u16) {
    const bool truth = dtype == DType::boolean;
    net.lowering.set_origin("scatter");
    out("scattered", net.lowering.reduce_scatter(x, world, 0, truth ? ReduceKind::max : ReduceKind::sum));
    for (ReduceKind kind : {ReduceKind::sum, ReduceKind::prod, ReduceKind::max, ReduceKind::min}) {
      if (truth && (kind == ReduceKind::sum || kind == ReduceKind::prod)) continue;
      net.lowering.set_origin("reduce_" + std::string(to_string(kind)));
      out(std::string(to_string(kind)).c_str(), net.lowering.all_reduce(x, world, kind));
    }
    if (ir::is_float(dtype)) {
      net.lowering.set_origin("reduce_avg");
      out("avg", net.lowering.all_reduce(x, world, ReduceKind::avg));
    }
  }
  return net.finish();
}

// Groups of neighbours beside the world; ranks outside of a group pass its collectives over.
ir::Schedule groups() {
  Net net;
  const GroupId world = everyone(net, 4);
  const GroupId low = net.graph.add_group("low", {0, 1}), odd = net.graph.add_group("odd", {3, 1});
  TensorBox x = net.input("x", DType::f32, {6});
  TensorBox a = net.lowering.all_reduce(x, world, ReduceKind::sum);
  net.lowering.output("world", net.unary(OpCode::neg, a));
  // The result of a rank outside a group is undefined, so each group's result only counts on its members.
  net.lowering.all_reduce(x, low, ReduceKind::sum);
  net.lowering.all_reduce(net.unary(OpCode::abs, x), odd, ReduceKind::max);
  return net.finish();
}

// Rank 1 receives what rank 0 sends.
ir::Schedule transfer() {
  Net net;
  const GroupId world = everyone(net, 2);
  TensorBox x = net.input("x", DType::f32, {6});
  net.lowering.send(net.unary(OpCode::neg, x), world, 1);
  TensorBox got = net.lowering.recv(DType::f32, {6}, world, 0);
  net.lowering.output("y", net.unary(OpCode::abs, x));
  net.lowering.realize(got);
  return net.finish();
}

// Rank 2 gets through rank 1 what rank 0 has.
ir::Schedule relay() {
  Net net;
  const GroupId world = everyone(net, 3);
  const GroupId first = net.graph.add_group("first", {0, 1}), second = net.graph.add_group("second", {1, 2});
  TensorBox x = net.input("x", DType::f32, {6});
  net.lowering.send(net.unary(OpCode::neg, x), first, 1);
  net.lowering.send(net.lowering.recv(DType::f32, {6}, first, 0), second, 1);
  net.lowering.output("y", net.lowering.broadcast(net.lowering.recv(DType::f32, {6}, second, 0), world, 2));
  return net.finish();
}

// The second message may take the memory of the first, which nothing reads.
ir::Schedule two_messages() {
  Net net;
  const GroupId world = everyone(net, 2);
  TensorBox x = net.input("x", DType::f32, {6});
  net.lowering.send(x, world, 1);
  net.lowering.realize(net.lowering.recv(DType::f32, {6}, world, 0));
  net.lowering.send(net.unary(OpCode::neg, x), world, 1);
  net.lowering.output("y", net.lowering.broadcast(net.lowering.recv(DType::f32, {6}, world, 0), world, 1));
  return net.finish();
}

// x is reduced while `other` is computed; then x's memory is taken by `late`, which nothing but its release
// holds back.
ir::Schedule overwrite() {
  ir::Graph g;
  g.ranks = 2;
  const GroupId world = g.add_group("world", {0, 1});
  ir::ExprPool& pool = *g.pool;
  const auto loop = [&](const char* name, ir::BufferId from, ir::BufferId to, OpCode code) {
    ir::BodyBuilder b(pool);
    ir::Loops loops;
    loops.sizes = {256};
    loops.store_index = pool.index(0);
    loops.body = b.finish(b.unary(code, b.load(from, DType::f32, pool.index(0))));
    ir::Operation op;
    op.name = name;
    op.kernel = std::move(loops);
    op.outputs = {to};
    op.origins = {std::string("/") + name};
    return g.add_op(std::move(op));
  };
  const auto owned = [&](const char* name, ir::StorageKind kind) {
    return g.add_owned(name, DType::f32, {256}, kind);
  };
  const ir::BufferId in = owned("in", ir::StorageKind::input);
  g.inputs.push_back({"in", in});
  const auto comm = [&](const char* name) {
    const ir::BufferId b = owned(name, ir::StorageKind::comm);
    g[g[b].storage].groups = {world};
    g[b].layout = ir::CommBufferLayout{{1}, ir::CommBufferKind::symmetric, {world}};
    return b;
  };
  const ir::BufferId x = comm("x"), sum = comm("sum");
  std::vector<ir::OpId> order;
  order.push_back(loop("fill", in, x, OpCode::neg));
  ir::CollectiveKernel k;
  k.group = world;
  k.inputs = {whole(g, x)};
  k.outputs = {whole(g, sum)};
  const ir::OpId start = g.add_op({"reduce", k, {sum}, {"/AllReduce"}, std::nullopt});
  order.push_back(start);
  const ir::BufferId waited = g.add_mutation(sum, "sum.wait");
  order.push_back(g.add_op({"reduce.wait", ir::WaitKernel{start}, {waited}, {}, std::nullopt}));
  order.push_back(g.add_op({"reduce.release", ir::ReleaseKernel{start}, {}, {}, std::nullopt}));
  order.push_back(loop("late", in, g.add_mutation(x, "x.late"), OpCode::abs));
  const ir::BufferId late_name = g[order.back()].outputs[0];
  const ir::BufferId y = owned("y", ir::StorageKind::output), z = owned("z", ir::StorageKind::output);
  order.push_back(loop("show_late", late_name, z, OpCode::neg));
  order.push_back(loop("show_sum", waited, y, OpCode::neg));
  g.outputs = {{"y", y}, {"z", z}};
  return planned(std::move(g), order);
}

// A little of everything that a source shows.
ir::Schedule golden() {
  Net net;
  const GroupId world = everyone(net, 2);
  const ir::Expr rows = net.graph.add_dim("rows", {1, 6});
  TensorBox x = net.input("x", DType::f32, {rows, 8});
  net.lowering.set_origin("/mlp/MatMul");
  TensorBox part = net.lowering.matmul(x, net.constant("w", DType::f32, {8, 8}, 1));
  net.lowering.set_origin("/mlp/AllReduce");
  TensorBox sum = net.lowering.all_reduce(part, world, ReduceKind::sum);
  net.lowering.set_origin("/mlp/Gelu");
  TensorBox gelu = net.binary(
      OpCode::mul, sum,
      net.unary(OpCode::sigmoid, net.binary(OpCode::mul, sum, net.lowering.scalar(DType::f32, 1.702))));
  net.lowering.set_origin("/mlp/ReduceMax");
  net.lowering.output("y", net.lowering.reduce(gelu, ReduceKind::max, {1}, false));
  return net.finish();
}

// x + f(x W) V, normalised, with the columns of W and the rows of V on two ranks: a two-layer tensor-parallel
// network as it is compiled.
ir::Schedule tensor_parallel() {
  Net net;
  const GroupId world = everyone(net, 2);
  const ir::Expr tokens = net.graph.add_dim("tokens", {1, 64});
  constexpr std::int64_t kWidth = 64, kHidden = 64;  // of a rank
  const auto scalar = [&](double value) { return net.lowering.scalar(DType::f16, value); };
  const auto over_width = [&](TensorBox x) {
    return net.binary(OpCode::mul, net.lowering.reduce(x, ReduceKind::sum, {1}, true), scalar(1.0 / kWidth));
  };
  TensorBox x = net.input("x", DType::f16, {tokens, kWidth});
  for (int layer = 0; layer < 2; ++layer) {
    const auto at = [&](const char* node) {
      net.lowering.set_origin(fmt::format("/layer.{}/{}", layer, node));
    };
    const auto constant = [&](const char* name, std::vector<std::int64_t> sizes, int seed) {
      return net.constant(fmt::format("{}.{}", name, layer), DType::f16, std::move(sizes), 2 * layer + seed);
    };
    at("up");
    TensorBox hidden = net.binary(OpCode::add, net.lowering.matmul(x, constant("up", {kWidth, kHidden}, 1)),
                                  constant("up_bias", {kHidden}, 2));
    at("Gelu");
    const TensorBox erf = net.unary(OpCode::erf, net.binary(OpCode::mul, hidden, scalar(0.70710678)));
    hidden = net.binary(OpCode::mul, net.binary(OpCode::mul, hidden, scalar(0.5)),
                        net.binary(OpCode::add, erf, scalar(1)));
    at("down");
    const TensorBox part = net.lowering.matmul(hidden, constant("down", {kHidden, kWidth}, 3));
    at("AllReduce");
    x = net.binary(OpCode::add, x, net.lowering.all_reduce(part, world, ReduceKind::sum));
    at("LayerNormalization");
    const TensorBox centred = net.binary(OpCode::sub, x, over_width(x));
    const TensorBox variance = over_width(net.binary(OpCode::mul, centred, centred));
    x = net.binary(OpCode::mul, centred,
                   net.unary(OpCode::rsqrt, net.binary(OpCode::add, variance, scalar(0.001))));
  }
  net.lowering.output("y", x);
  ir::Schedule schedule = net.finish();
  schedule.plan.reset();
  CompileOptions options;
  options.target = "cuda";
  optimise(schedule, options);
  return schedule;
}

codegen::cuda::CudaOptions fault(EdgeReason reason) {
  codegen::cuda::CudaOptions o;
  o.fault = PlantedFault{true, reason, 0};
  return o;
}

ir::Schedule coordinates() {
  ir::Schedule schedule = ir::parse_schedule(by_coordinates());
  CompileOptions options;
  options.target = "cuda";
  optimise(schedule, options);
  return schedule;
}

}  // namespace

void add_collective_cases(std::vector<Case>& out) {
  out.push_back({"golden", golden});
  out.push_back({"tensor_parallel", tensor_parallel});
  for (int ranks : {1, 2, 4}) {
    out.push_back({fmt::format("layers_{}", ranks), [ranks] { return layers(ranks); }});
    out.push_back(
        {fmt::format("collectives_{}_f32", ranks), [ranks] { return every_collective(ranks, DType::f32); }});
  }
  for (DType dtype : {DType::f64, DType::f16, DType::bf16, DType::i8, DType::i16, DType::i32, DType::i64,
                      DType::u8, DType::u16, DType::u32, DType::u64, DType::boolean}) {
    out.push_back(
        {fmt::format("collectives_2_{}", to_string(dtype)), [dtype] { return every_collective(2, dtype); }});
  }
  out.push_back({"groups", groups});
  out.push_back({"by_coordinates", coordinates});
  out.push_back({"transfer", transfer});
  out.push_back({"relay", relay});
  out.push_back({"two_messages", two_messages});
  out.push_back({"overwrite", overwrite});
  out.push_back({"overwrite_without_event_before", overwrite, fault(EdgeReason::before_collective)});
  out.push_back({"overwrite_without_release", overwrite, fault(EdgeReason::overwrites_input)});
  out.push_back(
      {"layers_without_event_before", [] { return layers(2); }, fault(EdgeReason::before_collective)});
  out.push_back({"layers_without_event_after", [] { return layers(2); }, fault(EdgeReason::reads_result)});
}

}  // namespace braid::test
