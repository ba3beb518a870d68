// Kernels for recurrent layers.
#pragma once

#include "codegen/cuda/kernel.h"

namespace braid::codegen::cuda {

// One block per row of the batch (runtime/device/recurrence.h).
Launch recurrence_kernel(const ir::Graph& graph, ir::OpId op);

}  // namespace braid::codegen::cuda
