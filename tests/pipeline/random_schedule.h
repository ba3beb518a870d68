// Random schedules: any placement, any order that a rank could compute in, lowered, then with neighbours
// swapped and transfers put into batches.
#pragma once

#include <random>

#include "pipeline/schedule.h"

namespace braid::test {

struct RandomScheduleOptions {
  int max_ranks = 4;
  int max_stages_per_rank = 3;
  int max_microbatches = 4;
  bool split_backward = true;
  bool idle = true;
  bool overlap = true;
  // Options of the lowered rows.
  int swaps = 0;
  bool batches = false;
  bool waits = false;  // WAIT_SENDs, before swaps and batches
};

// Rows that only compute, in an order that can run.
pipeline::PipelineSchedule random_compute(std::mt19937& random, const RandomScheduleOptions& options = {});

// Lowered. With swaps still one that validate accepts, while `keep_valid`; otherwise anything.
pipeline::PipelineSchedule random_lowered(std::mt19937& random, const RandomScheduleOptions& options = {},
                                          bool keep_valid = false);

}  // namespace braid::test
