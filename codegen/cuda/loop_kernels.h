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

// out = epilogue(sum of products), one thread per element, for problems that the GEMM library does not
// support.
Launch naive_gemm_kernel(const ir::Graph& graph, ir::OpId op);

}  // namespace braid::codegen::cuda
