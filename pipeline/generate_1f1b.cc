#include "pipeline/generator_sizes.h"
#include "pipeline/placement.h"
#include "pipeline/published_schedules.h"

namespace braid::pipeline {

PipelineSchedule generate_1f1b(const GeneratorOptions& o) {
  check_sizes("1F1B", o, 1);
  if (o.microbatches < o.ranks)
    refuse_sizes("1F1B", o, "it requires at least as many micro-batches as ranks");
  PipelineSchedule schedule = empty_schedule(o, loop_placement(o.ranks, o.stages));
  for (std::int32_t r = 0; r < o.ranks; ++r) {
    const std::int32_t after = o.ranks - 1 - r;
    Row& row = schedule.rows[r] = row_after_idle(r, 2 * o.microbatches + 3 * after);
    std::int32_t forward = 0, backward = 0;
    while (forward < after) row.push_back({ActionKind::forward, r, forward++});
    append_idle(row, 2 * after);
    while (forward < o.microbatches) {
      row.push_back({ActionKind::forward, r, forward++});
      row.push_back({ActionKind::full_backward, r, backward++});
    }
    while (backward < o.microbatches) {
      append_idle(row, 1);
      row.push_back({ActionKind::full_backward, r, backward++});
    }
  }
  return schedule;
}

}  // namespace braid::pipeline
