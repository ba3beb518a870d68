#include <algorithm>

#include "pipeline/interleave.h"
#include "pipeline/placement.h"
#include "pipeline/published_schedules.h"

namespace braid::pipeline {

Schedule generate_inference(const GeneratorOptions& o) {
  check_sizes("Inference", o, 1);
  Schedule schedule = empty_schedule(o, loop_placement(o.ranks, o.stages));
  for (std::int32_t r = 0; r < o.ranks; ++r) {
    Row& row = schedule.rows[static_cast<std::size_t>(r)];
    row.reserve(static_cast<std::size_t>(r) + static_cast<std::size_t>(o.microbatches));
    append_idle(row, r);
    for (std::int32_t m = 0; m < o.microbatches; ++m) row.push_back({ActionKind::forward, r, m});
  }
  return schedule;
}

Schedule generate_interleaved_inference(const GeneratorOptions& o) {
  check_sizes("InterleavedInference", o, 0);
  const Interleave order("InterleavedInference", o);
  Schedule schedule = empty_schedule(o, loop_placement(o.ranks, o.stages));
  // A round shorter than the pipeline comes back to the first rank late.
  const std::int32_t late = std::max(0, o.ranks - order.per_round());
  for (std::int32_t r = 0; r < o.ranks; ++r) {
    Row& row = schedule.rows[static_cast<std::size_t>(r)];
    row.reserve(static_cast<std::size_t>(r + order.actions() + std::int64_t{late} * order.local_stages()));
    append_idle(row, r);
    for (std::int64_t k = 0; k < order.actions(); ++k) {
      if (k != 0 && k % order.per_round() == 0) append_idle(row, late);
      row.push_back(order.forward(r, k));
    }
  }
  return schedule;
}

}  // namespace braid::pipeline
