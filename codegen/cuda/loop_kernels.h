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

// One warp per row where rows are short, else one block per row. The order of the folds is fixed by the row's
// length.
Launch reduction_kernel(const ir::Graph& graph, ir::OpId op);

// A fused node in one kernel: one block per outer point, members one after the other; what they hand to each
// other lies in registers or in rows of shared memory. Members without inner dimensions: one thread per outer
// point. `local` are the buffers that nobody outside of the node reads.
Launch fused_kernel(const ir::Graph& graph, const ir::FusedLoops& fused, std::span<const ir::BufferId> local);
// What the rows need within the bounds of the dimensions.
std::int64_t fused_shared_bytes(const ir::Graph& graph, const ir::FusedLoops& fused);

// out = epilogue(sum of products), one thread per element: for what the GEMM library does not take.
Launch naive_gemm_kernel(const ir::Graph& graph, ir::OpId op);

}  // namespace braid::codegen::cuda
