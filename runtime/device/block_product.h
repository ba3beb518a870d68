// The extern kernel `block_product` on the device (runtime/host/block_product.h says what it computes): 16
// threads, its lanes, make one element of the result, with the same bits.
#pragma once

#include "runtime/device/shared_memory.h"
#include "runtime/extern_kernel.h"

namespace braid::rt::cuda {

inline constexpr int kBlockProductLanes = 16, kBlockProductColumns = 16;

// Column blockIdx.x * 16 + threadIdx.x / 16 of row blockIdx.y.
__global__ void block_product_kernel(const float* x, const uint8_t* weights, const float* scales,
                                     const uint8_t* zeros, int64_t n, int64_t k, int64_t bits, int64_t block,
                                     float* y) {
  BRAID_SHARED(float, sums, kBlockProductLanes* kBlockProductColumns);
  const int lane = static_cast<int>(threadIdx.x) % kBlockProductLanes;
  const int64_t c =
      static_cast<int64_t>(blockIdx.x) * kBlockProductColumns + threadIdx.x / kBlockProductLanes;
  const float* row = x + static_cast<int64_t>(blockIdx.y) * k;
  const int64_t blocks = (k + block - 1) / block, bytes = block * bits / 8;
  float sum = 0;
  if (c < n) {
    for (int64_t b = 0; b < blocks; ++b) {
      const uint8_t* w = weights + (c * blocks + b) * bytes;
      const int zero = zeros != nullptr ? zeros[c * blocks + b] : 1 << (bits - 1);
      float inner = 0;
      for (int64_t g = lane; g < bytes; g += kBlockProductLanes) {
        const int q = w[g];
        if (bits == 8) {
          const int64_t at = b * block + g;
          inner = __fadd_rn(inner, __fmul_rn(at < k ? row[at] : 0.0f, static_cast<float>(q - zero)));
        } else {
          const int64_t at = b * block + 2 * g;
          const float low = __fmul_rn(at < k ? row[at] : 0.0f, static_cast<float>((q & 15) - zero));
          const float high = __fmul_rn(at + 1 < k ? row[at + 1] : 0.0f, static_cast<float>((q >> 4) - zero));
          inner = __fadd_rn(inner, __fadd_rn(low, high));
        }
      }
      sum = __fadd_rn(sum, __fmul_rn(inner, scales[c * blocks + b]));
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = kBlockProductLanes / 2; half > 0; half /= 2) {
    if (lane < half)
      sums[threadIdx.x] = __fadd_rn(sums[threadIdx.x], sums[threadIdx.x + static_cast<unsigned>(half)]);
    __syncthreads();
  }
  if (lane == 0 && c < n) y[static_cast<int64_t>(blockIdx.y) * n + c] = sums[threadIdx.x];
}

inline const char* block_product(const BraidExternCall* call) {
  const int64_t m = call->reads[0].sizes[0], k = call->reads[0].sizes[1], n = call->writes[0].sizes[1];
  if (m == 0 || n == 0) return nullptr;
  const dim3 grid(static_cast<unsigned>((n + kBlockProductColumns - 1) / kBlockProductColumns),
                  static_cast<unsigned>(m));
  const cudaError_t error = BRAID_LAUNCH(
      block_product_kernel, grid, dim3(kBlockProductLanes * kBlockProductColumns), 0,
      static_cast<cudaStream_t>(call->stream), static_cast<const float*>(call->reads[0].data),
      static_cast<const uint8_t*>(call->reads[1].data), static_cast<const float*>(call->reads[2].data),
      call->read_count > 3 ? static_cast<const uint8_t*>(call->reads[3].data) : nullptr, n, k,
      braid_find_attribute(call, "bits", BRAID_INTEGER)->integer,
      braid_find_attribute(call, "block", BRAID_INTEGER)->integer, static_cast<float*>(call->writes[0].data));
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace braid::rt::cuda
