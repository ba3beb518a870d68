// Makes one full backward of an I directly followed by the W of the same stage and micro-batch:
//   0I1,0W1 -> 0B1
// Idle cells go away, also between the two. Members of containers stay as they are. Linear.
#pragma once

#include "pipeline/schedule.h"

namespace braid::pipeline {

Schedule merge_backward(const Schedule& schedule);

}  // namespace braid::pipeline
