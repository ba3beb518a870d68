// Kernels for loops and fused nodes, written from a plan.
#pragma once

#include "codegen/cuda/kernel.h"
#include "codegen/cuda/loop_plan.h"

namespace braid::codegen::cuda {

// Rows of more than `portable_shared_bytes` in shared memory get a variant with rows in the workspace.
Launch loop_kernel(const ir::Graph& graph, const LoopPlan& plan, std::int64_t portable_shared_bytes);

}  // namespace braid::codegen::cuda
