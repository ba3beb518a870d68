// Kernels for loops: elementwise, row reductions, and fused nodes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen/cuda/kernel.h"
#include "ir/fused_loops.h"

namespace braid::codegen::cuda {

// One thread per point, grid-stride.
Launch pointwise_kernel(const ir::Graph& graph, ir::OpId op);

// One warp per row if rows are short, otherwise one block per row. The row's length alone determines the
// order of the folds.
Launch reduction_kernel(const ir::Graph& graph, ir::OpId op);

// A fused node in one kernel: one block per outer point executes the members in order; values between them
// are in registers or in rows of shared memory. If no member has inner dimensions, one thread executes an
// outer point. `local` are the buffers that are not read outside the node.
Launch fused_kernel(const ir::Graph& graph, const ir::FusedLoops& fused, std::span<const ir::BufferId> local);
// The shared memory for the rows at the upper bounds of the dimensions.
std::int64_t fused_shared_bytes(const ir::Graph& graph, const ir::FusedLoops& fused);

// out = epilogue(sum of products), one thread per element, for problems that the GEMM library does not
// support.
Launch naive_gemm_kernel(const ir::Graph& graph, ir::OpId op);

}  // namespace braid::codegen::cuda
