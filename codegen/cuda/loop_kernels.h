// Kernels for loops: elementwise, row reductions, and fused nodes.
#pragma once

#include <optional>
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
// point. Nothing if the rows need more than `max_shared` bytes within the bounds of the dimensions; then the
// members are kernels of their own. `local` are the buffers that nobody outside of the node reads.
std::optional<Launch> fused_kernel(const ir::Graph& graph, const ir::FusedLoops& fused,
                                   std::span<const ir::BufferId> local, std::int64_t max_shared);

// out = epilogue(sum of products), one thread per element: for what the GEMM library does not take.
Launch naive_gemm_kernel(const ir::Graph& graph, ir::OpId op);

// The epilogue alone, from accumulators of type `acc` to the GEMM's output. They lie where the output will
// (`in_place`) or contiguously in scratch; the argument "$acc" stands for their address.
Launch epilogue_kernel(const ir::Graph& graph, ir::OpId op, ir::DType acc, bool in_place);

}  // namespace braid::codegen::cuda
