// Matrix products that the library does not take.
#pragma once

#include "codegen/cuda/kernel.h"
#include "ir/graph.h"

namespace braid::codegen::cuda {

// out = epilogue(sum of products), one thread per element.
Launch naive_gemm_kernel(const ir::Graph& graph, ir::OpId op);

}  // namespace braid::codegen::cuda
