// Chooses among the algorithms that the matrix library proposes for a product, by timing them.
#pragma once

#include "runtime/cuda/api.h"
#include "runtime/cuda_gemm.h"

namespace braid::rt::cuda {

constexpr int kTunedAlgorithms = 8;

// Times each algorithm of a prepared product on scratch memory, in their order, and chooses the fastest one,
// the earlier one of two that take the same time. Waits for `stream`. If it fails, the library's own choice
// stays.
cudaError_t tune(Gemm& gemm, const GemmProblem& problem, cudaStream_t stream);

}  // namespace braid::rt::cuda
