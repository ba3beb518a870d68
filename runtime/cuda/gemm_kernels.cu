#include "runtime/cuda/gemm_kernels.h"
#include "runtime/cuda_program.h"

namespace braid::rt::cuda {
namespace {

__device__ inline int64_t first_index() {
  return blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
}
__device__ inline int64_t index_stride() { return gridDim.x * static_cast<int64_t>(blockDim.x); }

__global__ void gemm_pointers_kernel(GemmPointers p) {
  for (int64_t i = first_index(); i < p.count; i += index_stride()) {
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

__device__ inline float activated(GemmEpilogue epilogue, float x) {
  if (epilogue == GemmEpilogue::kRelu) return x < 0.0f ? 0.0f : x;
  if (epilogue == GemmEpilogue::kGelu)
    return 0.5f * x * (1.0f + ::tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
  return x;
}

template <class T>
__global__ void empty_sums_kernel(EmptySums s) {
  const int64_t count = s.batch * s.m * s.n;
  for (int64_t i = first_index(); i < count; i += index_stride()) {
    const int64_t column = i % s.n, row = i / s.n % s.m;
    int64_t rest = i / s.n / s.m, at = row * s.ldd + column;
    for (int k = s.levels - 1; k >= 0; --k) {
      at += rest % s.level[k].size * s.level[k].d;
      rest /= s.level[k].size;
    }
    float sum = s.bias == nullptr ? 0.0f : device::to_float(static_cast<const T*>(s.bias)[column]);
    if (s.c != nullptr) sum += device::to_float(static_cast<const T*>(s.c)[at]);
    static_cast<T*>(s.d)[at] = device::from_float<T>(activated(s.epilogue, sum));
  }
}

}  // namespace

cudaError_t fill_gemm_pointers(const GemmPointers& pointers, unsigned blocks, cudaStream_t stream) {
  return BRAID_LAUNCH(gemm_pointers_kernel, blocks, kGemmThreads, 0, stream, pointers);
}

cudaError_t fill_empty_sums(const EmptySums& sums, unsigned blocks, cudaStream_t stream) {
  switch (sums.type) {
    case GemmType::kFloat16:
      return BRAID_LAUNCH(empty_sums_kernel<__half>, blocks, kGemmThreads, 0, stream, sums);
    case GemmType::kBFloat16:
      return BRAID_LAUNCH(empty_sums_kernel<__nv_bfloat16>, blocks, kGemmThreads, 0, stream, sums);
    default:
      return BRAID_LAUNCH(empty_sums_kernel<float>, blocks, kGemmThreads, 0, stream, sums);
  }
}

}  // namespace braid::rt::cuda
