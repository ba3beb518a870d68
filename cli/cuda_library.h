// Opens the library that `build_emulated` or `build_nvcc` made from a CUDA program.
#pragma once

#include "cli/execute.h"
#include "runtime/cuda_library.h"

namespace braid::cli {

// rt::ProgramError BR0721 if it is not this program's.
rt::CudaLibrary open_cuda_library(const ProgramFiles& program);

}  // namespace braid::cli
