// Checks all environment variables that a run of a compiled program reads, for callers that report errors
// before they start anything. find_rank_environment() reads those that describe the ranks.
#pragma once

#include "runtime/comm/status.h"

namespace braid::rt {

// `cuda`: of a program for CUDA devices. The error names the first invalid variable.
Status check_environment(bool cuda);

}  // namespace braid::rt
