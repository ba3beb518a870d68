// Adds <stage>REDUCE_GRAD directly behind the cell in which the last gradient of a stage's weights (W or B)
// is computed, and behind it <stage>WAIT_REDUCE_GRAD where that is asked for. Idle cells go away. Takes rows
// without transfers; linear.
#pragma once

#include "pipeline/schedule.h"

namespace braid::pipeline {

Schedule add_reduce_grad(const Schedule& schedule, bool wait = false);

}  // namespace braid::pipeline
