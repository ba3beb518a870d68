#include <algorithm>

#include "pipeline/interleave.h"
#include "pipeline/placement.h"
#include "pipeline/published_schedules.h"

namespace braid::pipeline {

PipelineSchedule generate_inference(const GeneratorOptions& o) {
  check_sizes("Inference", o, 1);
  PipelineSchedule schedule = empty_schedule(o, loop_placement(o.ranks, o.stages));
  for (std::int32_t r = 0; r < o.ranks; ++r) {
    Row& row = schedule.rows[r] = row_after_idle(r, o.microbatches);
    for (std::int32_t m = 0; m < o.microbatches; ++m) row.push_back({ActionKind::forward, r, m});
  }
  return schedule;
}

PipelineSchedule generate_interleaved_inference(const GeneratorOptions& o) {
  check_sizes("InterleavedInference", o, 0);
  const Interleave order("InterleavedInference", o);
  PipelineSchedule schedule = empty_schedule(o, loop_placement(o.ranks, o.stages));
  // A round with fewer micro-batches than ranks returns to the first rank late.
  const std::int32_t late = std::max(0, o.ranks - order.per_round());
  for (std::int32_t r = 0; r < o.ranks; ++r) {
    Row& row = schedule.rows[r] = row_after_idle(r, order.actions() + late * order.local_stages());
    for (std::int32_t k = 0; k < order.actions(); ++k) {
      if (k != 0 && k % order.per_round() == 0) append_idle(row, late);
      row.push_back(order.forward(r, k));
    }
  }
  return schedule;
}

}  // namespace braid::pipeline
