#include "passes/name_post_ops.h"

#include <utility>
#include <vector>

#include "ir/post_ops.h"

namespace braid::passes {

bool NamePostOps::run(ir::Schedule& schedule) {
  bool changed = false;
  for (ir::Operation& op : schedule.graph.ops) {
    auto* gemm = op.as<ir::Gemm>();
    if (gemm == nullptr || !gemm->epilogue) continue;
    std::vector<ir::PostOp> steps = ir::find_post_ops(schedule.graph, *gemm);
    changed |= steps != gemm->post_ops;
    gemm->post_ops = std::move(steps);
  }
  return changed;
}

}  // namespace braid::passes
