// Adds <stage>REDUCE_GRAD directly after the cell that computes the last weight gradient of a stage (W or B),
// followed by <stage>WAIT_REDUCE_GRAD if requested. Idle cells are dropped. Takes rows without transfers;
// linear.
#pragma once

#include "pipeline/schedule.h"

namespace braid::pipeline {

PipelineSchedule add_reduce_grad(const PipelineSchedule& schedule, bool wait = false);

}  // namespace braid::pipeline
