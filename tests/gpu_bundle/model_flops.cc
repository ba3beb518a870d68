#include "tests/gpu_bundle/model_flops.h"

#include <algorithm>

#include "ir/op_table.h"

namespace braid::test {
namespace {

using ir::OpCode;

bool computes(const ir::Instr& instr) {
  switch (instr.code) {
    case OpCode::cast:
    case OpCode::min:
    case OpCode::max:
    case OpCode::where:
    case OpCode::neg:
    case OpCode::abs:
    case OpCode::sign:
      return false;
    default:
      return ir::is_float(instr.dtype) && ir::row_of(instr.code).flops > 0;
  }
}

double points_of(const std::vector<ir::Expr>& sizes, const analysis::SizeOf& size) {
  double points = 1;
  for (const ir::Expr& e : sizes) points *= static_cast<double>(size(e));
  return points;
}

bool takes_maxima(const ir::Operation& op) {
  const auto* pooling = op.as<ir::Pooling>();
  return pooling != nullptr && (pooling->kind == ir::PoolKind::max || pooling->kind == ir::PoolKind::arg_max);
}

double of_loops(const ir::Loops& loops, const analysis::SizeOf& size) {
  const auto computed = std::count_if(loops.body.instrs.begin(), loops.body.instrs.end(), computes);
  const bool folds = loops.is_reduction() && ir::is_float(loops.body.result_dtype()) &&
                     loops.reduce != ir::ReduceKind::max && loops.reduce != ir::ReduceKind::min;
  return points_of(loops.sizes, size) * static_cast<double>(computed + (folds ? 1 : 0));
}

}  // namespace

double model_flops(const ir::Graph& graph, const analysis::SizeOf& size) {
  double flops = 0;
  for (const ir::Operation& op : graph.ops) {
    if (const auto* loops = op.as<ir::Loops>()) {
      flops += of_loops(*loops, size);
    } else if (!takes_maxima(op)) {
      flops += analysis::kernel_work(graph, op, size, [](ir::BufferId) { return false; }).flops;
    }
  }
  return flops;
}

}  // namespace braid::test
