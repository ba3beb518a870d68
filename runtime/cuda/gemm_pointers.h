// The matrices of a batched product whose batch dimensions no single stride describes, as arrays of pointers.
#pragma once

#include "runtime/cuda/api.h"
#include "runtime/cuda_gemm_problem.h"

namespace braid::rt::cuda {

inline constexpr int kMostGemmBatches = 8;
inline constexpr unsigned kGemmPointersThreads = 128;  // of a block, one per matrix

struct GemmPointers {
  int levels;  // outermost first
  GemmBatch level[kMostGemmBatches];
  const char *a, *b;
  char* d;
  int input_bytes, output_bytes;  // of an element
  int64_t count;                  // product of the levels' sizes
  const void **a_array, **b_array;
  void** d_array;
};

cudaError_t fill_gemm_pointers(const GemmPointers& pointers, unsigned blocks, cudaStream_t stream);

}  // namespace braid::rt::cuda
