#include "codegen/cuda/loop_kernels.h"

#include <fmt/format.h>

#include "codegen/collapse.h"
#include "codegen/cuda/scalar.h"
#include "codegen/kernel_name.h"
#include "ir/error.h"
#include "ir/typing.h"

namespace braid::codegen::cuda {

using ir::DType;
using ir::Expr;

namespace {

constexpr std::int64_t kWarpRow = 512;  // longest row that one warp folds

std::string value_in(const ir::LoopBody& body, const std::string& result, DType type) {
  return converted(result, body.result_dtype(), type);
}

const ir::Loops& loops_of(const ir::Graph& graph, ir::OpId op) {
  const auto* loops = graph[op].as<ir::Loops>();
  ir::internal_check(loops != nullptr && graph[op].outputs.size() == 1, "'{}' is not a loop with one output",
                     graph[op].name);
  return *loops;
}

void for_grid_stride(KernelBuilder& k, const std::string& index, Expr n) {
  const char* type = k.index_type();
  const std::string end = k.operand(n, {});
  k.open(fmt::format("for ({} {} = math::first_index<{}>(); {} < {}; {} += math::index_stride<{}>())", type,
                     index, type, index, end, index, type));
}

std::string flat_name(std::size_t dims, std::size_t first, const char* otherwise) {
  return dims == 1 ? fmt::format("i{}", first) : otherwise;
}

}  // namespace

Launch pointwise_kernel(const ir::Graph& graph, ir::OpId op) {
  const ir::Loops loops = collapse(loops_of(graph, op), *graph.pool);
  const ir::BufferId out = graph[op].outputs[0];
  KernelBuilder k(graph, needs_wide_index(graph, loops));
  const std::string flat = flat_name(loops.sizes.size(), 0, "i");
  for_grid_stride(k, flat, ir::numel(loops.sizes));
  k.decompose(flat, 0, loops.sizes, used_indices(loops));
  const std::string result = k.body(loops.body, loops.sizes);
  const DType type = graph[out].dtype;
  k.line(fmt::format("{}[{}] = {};", k.output(out), k.expr(loops.store_index, loops.sizes),
                     value_in(loops.body, result, type)));
  k.close();
  Launch launch = k.finish();
  launch.wanted_name = kernel_name(graph, {op});
  launch.count = host_expr(ir::numel(loops.sizes));
  launch.grid = "grid_for(count, 256)";
  launch.block = "256";
  return launch;
}

Launch reduction_kernel(const ir::Graph& graph, ir::OpId op) {
  const ir::Loops loops = collapse(loops_of(graph, op), *graph.pool);
  const ir::BufferId out = graph[op].outputs[0];
  const std::size_t kept = loops.kept();
  const std::span<const Expr> sizes = loops.sizes;
  const Expr rows = ir::numel(sizes.first(kept)), columns = ir::numel(sizes.subspan(kept));
  const bool warp = ir::bounds(columns).max <= kWarpRow;
  const std::vector<bool> used = used_indices(loops);
  const DType type = graph[out].dtype, acc = accumulator_dtype(type);
  const std::string acc_type = value_type(acc);
  const char* how = fold(loops.reduce);

  KernelBuilder k(graph, needs_wide_index(graph, loops));
  const char* index = k.index_type();
  const std::string row = flat_name(kept, 0, "row");
  const std::string rows_text = k.operand(rows, {});
  if (warp) {
    k.open(fmt::format(
        "for ({0} {1} = blockIdx.x * blockDim.y + threadIdx.y; {1} < {2}; {1} += gridDim.x * blockDim.y)",
        index, row, rows_text));
  } else {
    k.open(fmt::format("for ({0} {1} = blockIdx.x; {1} < {2}; {1} += gridDim.x)", index, row, rows_text));
  }
  k.decompose(row, 0, sizes.first(kept), used);
  k.line(fmt::format("{0} folded = {1}::neutral<{0}>();", acc_type, how));
  const std::string column = flat_name(sizes.size() - kept, kept, "column");
  k.open(fmt::format("for ({0} {1} = {2}; {1} < {3}; {1} += {4})", index, column,
                     warp ? "threadIdx.x" : "thread_in_block()", k.operand(columns, {}),
                     warp ? "kWarpSize" : "threads_per_block()"));
  k.decompose(column, kept, sizes.subspan(kept), used);
  const std::string result = k.body(loops.body, sizes);
  k.line(
      fmt::format("folded = {}::apply<{}>(folded, {});", how, acc_type, value_in(loops.body, result, acc)));
  k.close();
  k.line(fmt::format("folded = {}<{}>(folded);", warp ? "warp_reduce" : "block_reduce", how));
  k.line(fmt::format("if ({} == 0) {}[{}] = {};", warp ? "threadIdx.x" : "thread_in_block()", k.output(out),
                     k.expr(loops.store_index, sizes), converted("folded", acc, type)));
  k.close();
  Launch launch = k.finish();
  launch.wanted_name = kernel_name(graph, {op});
  launch.count = host_expr(rows);
  launch.grid = warp ? "grid_for(count, 8)" : "grid_for(count, 1)";
  launch.block = warp ? "dim3(32, 8)" : fmt::format("block_for({})", host_expr(columns));
  return launch;
}

Launch naive_gemm_kernel(const ir::Graph& graph, ir::OpId op) {
  const auto& gemm = *graph[op].as<ir::Gemm>();
  const std::vector<Expr>& sizes = gemm.out.sizes;
  const std::size_t rank = sizes.size();
  ir::ExprPool& pool = *graph.pool;
  const Expr depth = gemm.a.sizes.back();
  std::vector<Expr> extents = sizes;
  extents.push_back(depth);
  Expr a = gemm.a.offset, b = gemm.b.offset, out = gemm.out.offset;
  const Expr along = pool.index(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    const Expr i = pool.index(d);
    a = a + (d + 1 < rank ? i : along) * gemm.a.strides[d];
    b = b + (d + 2 < rank ? i : d + 2 == rank ? along : i) * gemm.b.strides[d];
    out = out + i * gemm.out.strides[d];
  }
  const ir::LoopBody none;
  const ir::LoopBody& epilogue = gemm.epilogue ? *gemm.epilogue : none;
  bool wide = !fits_int32(ir::numel(extents) * 2);
  for (Expr e : {a, b, out}) wide |= !fits_int32(e, extents);
  for (const ir::Instr& instr : epilogue.instrs) wide |= needs_wide_index(instr.index, epilogue, sizes, pool);

  const DType in = graph[gemm.a.buffer].dtype, type = graph[gemm.out.buffer].dtype;
  const DType acc = ir::accumulator_of(in);
  const std::string acc_type = value_type(acc);
  KernelBuilder k(graph, wide);
  const std::string flat = flat_name(rank, 0, "i");
  for_grid_stride(k, flat, ir::numel(sizes));
  k.decompose(flat, 0, sizes, std::vector<bool>(rank, true));
  k.line(fmt::format("{} acc = 0;", acc_type));
  const std::string ak = fmt::format("i{}", rank);
  k.open(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1})", k.index_type(), ak, k.operand(depth, extents)));
  const std::string x = converted(fmt::format("{}[{}]", k.input(gemm.a.buffer), k.expr(a, extents)), in, acc);
  const std::string y = converted(fmt::format("{}[{}]", k.input(gemm.b.buffer), k.expr(b, extents)),
                                  graph[gemm.b.buffer].dtype, acc);
  k.line(ir::is_float(acc) ? fmt::format("acc += {} * {};", x, y)
                           : fmt::format("acc = math::add(acc, math::mul({}, {}));", x, y));
  k.close();
  std::string result = converted("acc", acc, type);
  if (gemm.epilogue) {
    DType wanted = acc;
    for (const ir::Instr& instr : epilogue.instrs) {
      if (instr.code == ir::OpCode::acc) wanted = instr.dtype;
    }
    result = value_in(epilogue, k.body(epilogue, sizes, {}, converted("acc", acc, wanted)), type);
  }
  k.line(fmt::format("{}[{}] = {};", k.output(gemm.out.buffer), k.expr(out, extents), result));
  k.close();
  Launch launch = k.finish();
  launch.wanted_name = "product";
  launch.count = host_expr(ir::numel(sizes));
  launch.grid = "grid_for(count, 256)";
  launch.block = "256";
  return launch;
}

}  // namespace braid::codegen::cuda
