#include "passes/name_post_ops.h"

#include <utility>
#include <vector>

#include "ir/kernel_parts.h"
#include "ir/post_ops.h"

namespace braid::passes {

bool NamePostOps::run(ir::Schedule& schedule) {
  bool changed = false;
  for (ir::Operation& op : schedule.graph.ops) {
    ir::Product* product = ir::as_product(op.kernel);
    if (product == nullptr || !product->epilogue) continue;
    std::vector<ir::PostOp> steps = ir::find_post_ops(schedule.graph, *product);
    changed |= steps != product->post_ops;
    product->post_ops = std::move(steps);
  }
  return changed;
}

}  // namespace braid::passes
