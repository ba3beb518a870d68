// Kernels of our own that read peers' memory: every kind, reduction and element type, with sizes from one
// element to more than the blocks of a kernel hold at once.
#include <fmt/format.h>

#include <numeric>

#include "ir/collective_table.h"
#include "ir/parser.h"
#include "passes/plan_memory.h"
#include "passes/runner.h"
#include "tests/codegen_cuda/cases.h"

namespace braid::test {
namespace {

using ir::CollectiveKernel;
using ir::CollectiveKind;
using ir::DType;
using ir::OpCode;
using ir::ReduceKind;
using ir::TensorBox;

std::vector<ReduceKind> reductions_of(DType dtype) {
  if (dtype == DType::boolean) return {ReduceKind::max, ReduceKind::min};
  if (!ir::is_float(dtype)) return {ReduceKind::sum, ReduceKind::prod, ReduceKind::max, ReduceKind::min};
  return {ReduceKind::sum, ReduceKind::prod, ReduceKind::max, ReduceKind::min, ReduceKind::avg};
}

// All-reduces by the given kernel, gathers and scatters by one_shot, over so many elements of each rank
// (0: dimension n).
ir::Schedule peer_kernels(int ranks, DType dtype, std::int64_t elements, const char* algorithm) {
  Net net;
  const ir::Expr size = elements > 0 ? ir::Expr(elements) : net.graph.add_dim("n", {1, kMostPeerElements});
  net.graph.ranks = ranks;
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  const ir::GroupId world = net.graph.add_group("world", all);
  // Not all of it inputs: operands that a kernel writes into the segment, and copies of inputs.
  TensorBox x = net.input("x", dtype, {size});
  TensorBox wide = net.input("wide", dtype, {ranks, size});
  TensorBox made = net.unary(dtype == DType::boolean ? OpCode::logical_not : OpCode::neg, x);
  for (ReduceKind kind : elements > 0 ? reductions_of(dtype) : std::vector{ReduceKind::sum}) {
    net.lowering.set_origin(fmt::format("reduce_{}", to_string(kind)));
    net.lowering.output(std::string(to_string(kind)), net.lowering.all_reduce(made, world, kind));
    net.lowering.set_origin(fmt::format("scatter_{}", to_string(kind)));
    net.lowering.output(fmt::format("{}_slab", to_string(kind)),
                        net.lowering.reduce_scatter(wide, world, 0, kind));
  }
  net.lowering.set_origin("in_place");
  TensorBox own = net.unary(dtype == DType::boolean ? OpCode::logical_not : OpCode::abs, x);
  net.lowering.all_reduce_(own, world, ReduceKind::max);
  net.lowering.output("in_place", own);
  net.lowering.set_origin("gather");
  net.lowering.output("gathered", net.lowering.all_gather(x, world, 0));
  ir::Schedule s = net.finish();
  for (const ir::ScheduleNode& node : s.nodes) {
    for (ir::OpId op : ir::ops_of(node)) {
      if (auto* k = s.graph[op].as<CollectiveKernel>())
        k->algorithm = *ir::algorithm_named(k->kind == CollectiveKind::all_reduce ? algorithm : "one_shot");
    }
  }
  passes::PlanMemory{.in_place_collective_bytes = 0}.run(s);  // not every kernel runs in place
  return s;
}

// Results that are parts of larger buffers: after their last element, within a pack of it, lie values that a
// loop has written before.
ir::Schedule peer_kernels_into_parts(const char* algorithm) {
  ir::Schedule s = ir::parse_schedule(fmt::format(R"(graph parts
ranks 2
group @all = [0, 1]
input %x: f32[7]
input %wide: f32[14]
input %t: f32[5]
%a: f32[7] comm(symmetric, @all) = pointwise {{ %0 = load %x %1 = neg %0 store %1 }}
%w: f32[14] comm(symmetric, @all) = pointwise {{ %0 = load %wide %1 = neg %0 store %1 }}
buffer %sums: f32[12] comm(symmetric, @all)
%beside_sum: f32[5] in %sums at 7 = pointwise {{ %0 = load %t store %0 }}
%r: f32[7] in %sums = all_reduce sum @all (%a) algorithm {} as reduce
%r.1 mutates %r = wait reduce
release reduce
buffer %slabs: f32[12] comm(symmetric, @all)
%beside_slab: f32[5] in %slabs at 7 = pointwise {{ %0 = load %t store %0 }}
%s: f32[7] in %slabs = reduce_scatter sum @all (%w) algorithm one_shot as scatter
%s.1 mutates %s = wait scatter
release scatter
buffer %all: f32[19] comm(symmetric, @all)
%beside_all: f32[5] in %all at 14 = pointwise {{ %0 = load %t store %0 }}
%g: f32[14] in %all = all_gather @all (%a) algorithm one_shot as gather
%g.1 mutates %g = wait gather
release gather
%y: f32[12] output = pointwise {{ %0 = load %sums store %0 }}
%z: f32[12] output = pointwise {{ %0 = load %slabs store %0 }}
%u: f32[19] output = pointwise {{ %0 = load %all store %0 }}
output %y
output %z
output %u
)",
                                                  algorithm),
                                      "parts");
  passes::run_passes(s, passes::parse_pass_list("plan_memory{in_place_collective_bytes=0}"));
  return s;
}

}  // namespace

void add_peer_cases(std::vector<Case>& out) {
  for (const char* algorithm : {"one_shot", "two_shot"}) {
    for (int ranks : {2, 3}) {
      out.push_back({fmt::format("peers_{}_any_size_{}", ranks, algorithm),
                     [=] { return peer_kernels(ranks, DType::f32, 0, algorithm); },
                     {},
                     "peers"});
    }
    out.push_back({fmt::format("peers_parts_{}", algorithm),
                   [=] { return peer_kernels_into_parts(algorithm); },
                   {},
                   "peers"});
    for (DType dtype : kPeerTypes) {
      out.push_back({fmt::format("peers_{}_{}", to_string(dtype), algorithm),
                     [=] { return peer_kernels(3, dtype, 1037, algorithm); },
                     {},
                     "peers"});
    }
  }
}

}  // namespace braid::test
