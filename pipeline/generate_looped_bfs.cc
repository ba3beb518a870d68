#include "pipeline/generator_sizes.h"
#include "pipeline/placement.h"
#include "pipeline/published_schedules.h"

namespace braid::pipeline {

PipelineSchedule generate_looped_bfs(const GeneratorOptions& o) {
  check_sizes("LoopedBFS", o, 0);
  PipelineSchedule schedule = empty_schedule(o, loop_placement(o.ranks, o.stages));
  const std::int32_t local = o.stages / o.ranks;
  for (std::int32_t r = 0; r < o.ranks; ++r) {
    const std::int32_t after = o.ranks - 1 - r;
    Row& row = schedule.rows[r] = row_after_idle(r, 2 * local * o.microbatches + 2 * after);
    for (std::int32_t c = 0; c < local; ++c) {
      for (std::int32_t m = 0; m < o.microbatches; ++m)
        row.push_back({ActionKind::forward, c * o.ranks + r, m});
    }
    append_idle(row, 2 * after);
    for (std::int32_t c = local - 1; c >= 0; --c) {
      for (std::int32_t m = o.microbatches - 1; m >= 0; --m) {
        row.push_back({ActionKind::full_backward, c * o.ranks + r, m});
      }
    }
  }
  return schedule;
}

}  // namespace braid::pipeline
