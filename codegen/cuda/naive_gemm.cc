#include "codegen/cuda/naive_gemm.h"

#include <fmt/format.h>

#include <numeric>

#include "codegen/cuda/scalar.h"
#include "ir/typing.h"

namespace braid::codegen::cuda {

using ir::DType;
using ir::Expr;

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
  const char* index = k.index_type();
  const std::string flat = rank == 1 ? "i0" : "i";
  k.open(fmt::format("for ({0} {1} = math::first_index<{0}>(); {1} < {2}; {1} += math::index_stride<{0}>())",
                     index, flat, k.operand(ir::numel(sizes), {})));
  std::vector<std::size_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  k.decompose(flat, dims, sizes, std::vector<bool>(rank, true));
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
    result =
        converted(k.body(epilogue, sizes, {}, converted("acc", acc, wanted)), epilogue.result_dtype(), type);
  }
  k.line(fmt::format("{}[{}] = {};", k.output(gemm.out.buffer), k.expr(out, extents), result));
  k.close();
  Launch launch = k.finish();
  launch.wanted_name = "product";
  launch.count = host_expr(ir::numel(sizes));
  launch.variants = {{.grid = "grid_for(count, 256)", .block = "256"}};
  return launch;
}

}  // namespace braid::codegen::cuda
