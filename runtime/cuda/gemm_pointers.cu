#include "runtime/cuda/gemm_pointers.h"
#include "runtime/cuda_program.h"

namespace braid::rt::cuda {
namespace {

// One thread per matrix.
__global__ void gemm_pointers_kernel(GemmPointers p) {
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

}  // namespace

cudaError_t fill_gemm_pointers(const GemmPointers& pointers, unsigned blocks, cudaStream_t stream) {
  return BRAID_LAUNCH(gemm_pointers_kernel, blocks, kGemmPointersThreads, 0, stream, pointers);
}

}  // namespace braid::rt::cuda
