// Merges an I directly followed by the W of the same stage and micro-batch into one full backward:
//   0I1,0W1 -> 0B1
// Idle cells are dropped, also between the two. Members of containers are unchanged. Linear.
#pragma once

#include "pipeline/schedule.h"

namespace braid::pipeline {

PipelineSchedule merge_backward(const PipelineSchedule& schedule);

}  // namespace braid::pipeline
