#include "pipeline/generator_sizes.h"
#include "pipeline/placement.h"
#include "pipeline/published_schedules.h"

namespace braid::pipeline {

PipelineSchedule generate_gpipe(const GeneratorOptions& o) {
  check_sizes("GPipe", o, 1);
  PipelineSchedule schedule = empty_schedule(o, loop_placement(o.ranks, o.stages));
  for (std::int32_t r = 0; r < o.ranks; ++r) {
    const std::int32_t after = o.ranks - 1 - r;
    Row& row = schedule.rows[r] = row_after_idle(r, 2 * o.microbatches + 3 * after);
    for (std::int32_t m = 0; m < o.microbatches; ++m) row.push_back({ActionKind::forward, r, m});
    append_idle(row, 3 * after);
    for (std::int32_t m = 0; m < o.microbatches; ++m) row.push_back({ActionKind::full_backward, r, m});
  }
  return schedule;
}

}  // namespace braid::pipeline
