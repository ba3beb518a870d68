#include "pipeline/add_reduce_grad.h"

namespace braid::pipeline {

PipelineSchedule add_reduce_grad(const PipelineSchedule& schedule, bool wait) {
  PerStage<int> gradients(schedule.rank_of_stage.ids());
  return with_rows(schedule, [&](int, const Row& row) {
    Row to;
    to.reserve(row.size() + 8);
    for (std::size_t p = 0; p < row.size(); p += cell_size(row, p)) {
      if (row[p].kind == ActionKind::idle) continue;
      append(to, entries(row, p));
      for (const Action a : members(row, p)) {
        if (!gives_weight_gradient(a.kind) || ++gradients[a.stage] != schedule.microbatches) continue;
        to.push_back({ActionKind::reduce_grad, a.stage, -1});
        if (wait) to.push_back({ActionKind::wait_reduce_grad, a.stage, -1});
      }
    }
    return to;
  });
}

}  // namespace braid::pipeline
