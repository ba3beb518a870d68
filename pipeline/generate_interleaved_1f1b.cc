#include <algorithm>

#include "pipeline/interleave.h"
#include "pipeline/placement.h"
#include "pipeline/published_schedules.h"

namespace braid::pipeline {

PipelineSchedule generate_interleaved_1f1b(const GeneratorOptions& o) {
  check_sizes("Interleaved1F1B", o, 0);
  const Interleave order("Interleaved1F1B", o);
  PipelineSchedule schedule = empty_schedule(o, loop_placement(o.ranks, o.stages));
  const std::int32_t all = order.actions();
  for (std::int32_t r = 0; r < o.ranks; ++r) {
    const std::int32_t after = o.ranks - 1 - r;
    const std::int32_t warm_up = std::min((order.local_stages() - 1) * order.per_round() + 2 * after, all);
    // Idle cells until the first backward has arrived from the last rank.
    const std::int32_t wait = warm_up == 0 ? 0 : o.stages + 2 * after - (warm_up + r);
    Row& row = schedule.rows[r] = row_after_idle(r, 2 * all + std::max(wait, 0) + warm_up);

    std::int32_t backward = 0;
    for (std::int32_t k = 0; k < warm_up; ++k) row.push_back(order.forward(r, k));
    append_idle(row, wait);
    for (std::int32_t k = warm_up; k < all; ++k) {
      row.push_back(order.forward(r, k));
      row.push_back(order.backward(ActionKind::full_backward, r, backward++));
    }
    while (backward < all) {
      append_idle(row, 1);
      row.push_back(order.backward(ActionKind::full_backward, r, backward++));
    }
  }
  return schedule;
}

}  // namespace braid::pipeline
