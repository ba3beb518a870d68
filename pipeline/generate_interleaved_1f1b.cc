#include <algorithm>

#include "pipeline/interleave.h"
#include "pipeline/placement.h"
#include "pipeline/published_schedules.h"

namespace braid::pipeline {

Schedule generate_interleaved_1f1b(const GeneratorOptions& o) {
  check_sizes("Interleaved1F1B", o, 0);
  const Interleave order("Interleaved1F1B", o);
  Schedule schedule = empty_schedule(o, loop_placement(o.ranks, o.stages));
  const std::int64_t all = order.actions();
  for (std::int32_t r = 0; r < o.ranks; ++r) {
    Row& row = schedule.rows[static_cast<std::size_t>(r)];
    const std::int32_t after = o.ranks - 1 - r;
    const std::int64_t ahead = std::int64_t{order.local_stages() - 1} * order.per_round() + 2 * after;
    const std::int64_t warm_up = std::min(ahead, all);
    // Until the first backward has come back from the last rank.
    const std::int64_t wait = warm_up == 0 ? 0 : o.stages + 2 * after - (warm_up + r);
    row.reserve(static_cast<std::size_t>(r + 2 * all + std::max<std::int64_t>(wait, 0) + warm_up));

    append_idle(row, r);
    std::int64_t backward = 0;
    for (std::int64_t k = 0; k < warm_up; ++k) row.push_back(order.forward(r, k));
    append_idle(row, static_cast<std::int32_t>(wait));
    for (std::int64_t k = warm_up; k < all; ++k) {
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
