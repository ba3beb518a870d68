// Products with batch dimensions as calls of the matrix library. Sizes and steps are numbers here: whether
// dimensions merge and how operands are aligned is decided for the present dims, not proved from symbols.
#pragma once

#include "runtime/cuda_gemm_problem.h"

namespace braid::rt::cuda {

// Removes dimensions of size 1 and merges neighbours that one step describes. The innermost dimensions become
// rows or columns of one matrix if that matrix has the same products.
BatchedGemm folded(const BatchedGemm& product);

// One call, or several calls of one problem. Each dimension is a stride of the problem, part of the arrays of
// pointers, or a repetition of the call.
struct GemmCalls {
  GemmProblem problem;
  int pointers = 0, repeats = 0;  // dimensions, outermost first
  GemmBatch pointer[kMostGemmBatches] = {}, repeat[kMostGemmBatches] = {};

  int64_t count() const;  // of calls
};

// The dimension of most matrices becomes a stride, the others repeat the call. `product` is folded.
GemmCalls by_strides(const BatchedGemm& product);
// One call. `product` is folded, has at least two dimensions, and neither bias nor epilogue nor C.
GemmCalls by_pointers(const BatchedGemm& product);

}  // namespace braid::rt::cuda
