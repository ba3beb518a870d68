// What the CUDA target's kernels cannot do within the memory of their operands.
#pragma once

#include "codegen/cuda/emit.h"
#include "codegen/legalise.h"

namespace braid::codegen::cuda {

KernelLimits kernel_limits(const CudaOptions& options = {});

}  // namespace braid::codegen::cuda
