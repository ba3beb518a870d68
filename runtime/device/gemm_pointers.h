// The matrices of a batched product whose batch dimensions no single stride describes, as arrays of pointers.
#pragma once

#include <cstdint>

namespace braid::rt::cuda {

// One batch dimension of a product: how many matrices, and the elements from one to the next.
struct GemmBatch {
  int64_t size, a, b, d;
};

}  // namespace braid::rt::cuda

namespace braid::rt::device {

inline constexpr int kMostGemmBatches = 8;

struct GemmPointers {
  int levels;  // outermost first
  cuda::GemmBatch level[kMostGemmBatches];
  const char *a, *b;
  char* d;
  int input_bytes, output_bytes;  // of an element
  int64_t count;                  // product of the levels' sizes
  const void **a_array, **b_array;
  void** d_array;
};

// One thread per matrix.
__global__ inline void gemm_pointers_kernel(GemmPointers p) {
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < p.count;
       i += gridDim.x * static_cast<int64_t>(blockDim.x)) {
    int64_t rest = i, a = 0, b = 0, d = 0;
    for (int k = p.levels - 1; k >= 0; --k) {
      const int64_t at = rest % p.level[k].size;
      rest /= p.level[k].size;
      a += at * p.level[k].a;
      b += at * p.level[k].b;
      d += at * p.level[k].d;
    }
    p.a_array[i] = p.a + a * p.input_bytes;
    p.b_array[i] = p.b + b * p.input_bytes;
    p.d_array[i] = p.d + d * p.output_bytes;
  }
}

}  // namespace braid::rt::device
