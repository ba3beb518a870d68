// The environment variables of CUDA programs.
#pragma once

#include "runtime/environment.h"

namespace braid::rt::cuda {

inline constexpr NumberVariable kTimeout{"BRAID_TIMEOUT_MS", 1, 1'000'000'000'000};
inline constexpr NumberVariable kGraphs{"BRAID_CUDA_GRAPHS", 0, 1};
inline constexpr NumberVariable kTune{"BRAID_CUDA_TUNE", 0, 1};
inline constexpr NumberVariable kVariables[] = {kTimeout, kGraphs, kTune};

}  // namespace braid::rt::cuda
