#include "pipeline/add_reduce_grad.h"

namespace braid::pipeline {

Schedule add_reduce_grad(const Schedule& schedule, bool wait) {
  Schedule out{schedule.rank_of_stage, {}, schedule.microbatches};
  out.rows.reserve(schedule.rows.size());
  std::vector<std::int32_t> gradients(schedule.rank_of_stage.size(), 0);
  for (const Row& row : schedule.rows) {
    Row& to = out.rows.emplace_back();
    to.reserve(row.size() + 8);
    for (std::size_t p = 0; p < row.size(); p += cell_size(row, p)) {
      if (row[p].kind == ActionKind::idle) continue;
      to.insert(to.end(), row.begin() + static_cast<std::ptrdiff_t>(p),
                row.begin() + static_cast<std::ptrdiff_t>(p + cell_size(row, p)));
      for (const Action a : members(row, p)) {
        if (a.kind != ActionKind::backward_weight && a.kind != ActionKind::full_backward) continue;
        if (++gradients[static_cast<std::size_t>(a.stage)] != schedule.microbatches) continue;
        to.push_back({ActionKind::reduce_grad, a.stage, -1});
        if (wait) to.push_back({ActionKind::wait_reduce_grad, a.stage, -1});
      }
    }
  }
  return out;
}

}  // namespace braid::pipeline
