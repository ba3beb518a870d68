// Kernels in addition to the matrix library's. One makes arrays of pointers to the matrices of a batched
// product whose batch dimensions no single stride describes. The other computes products over an axis of size
// 0, which the library may refuse.
#pragma once

#include "runtime/cuda/api.h"
#include "runtime/cuda_gemm_problem.h"

namespace braid::rt::cuda {

inline constexpr int64_t kGemmThreads = 128;  // of a block

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

// One thread per matrix.
cudaError_t fill_gemm_pointers(const GemmPointers& pointers, unsigned blocks, cudaStream_t stream);

// D[m,n] = epilogue(bias[n] + C[m,n]), or without either: what a product gives if k is 0.
struct EmptySums {
  int levels;  // batch dimensions, outermost first
  GemmBatch level[kMostGemmBatches];
  int64_t batch, m, n, ldd;  // `batch` is the product of the levels' sizes
  GemmType type;             // of bias, C and D
  GemmEpilogue epilogue;
  const void *bias, *c;  // null: there is none; C has the layout of D
  void* d;
};

// One thread per element.
cudaError_t fill_empty_sums(const EmptySums& sums, unsigned blocks, cudaStream_t stream);

}  // namespace braid::rt::cuda
