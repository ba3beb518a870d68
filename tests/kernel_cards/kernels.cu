// Kernels whose cards tests/kernel_cards/kernel_cards_test.py knows; kernels.sass is their machine code.
#include <cuda_fp16.h>

#include <cstdint>

namespace braid_cuda_cards {

// A loop of one 2-byte load and store.
__global__ void halves(const __half* x, __half* y, int n) {
#pragma unroll 1
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = __float2half(__half2float(x[i]) * 2.0f);
}

// Four loads of 16 bytes before the first use, then a tail of single elements.
__global__ void vectors(const float4* __restrict__ x, float4* __restrict__ y, const float* __restrict__ a,
                        float* __restrict__ b, int n, int tail) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 4 * blockDim.x) {
    float4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = x[i + k * blockDim.x];
#pragma unroll
    for (int k = 0; k < 4; ++k) y[i + k * blockDim.x] = {v[k].x + 1, v[k].y + 1, v[k].z + 1, v[k].w + 1};
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < tail; i += blockDim.x) b[i] = a[i] + 1;
}

// No loop: the whole kernel counts. A guard leaves early.
__global__ void single(const uint8_t* x, uint8_t* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = x[i] + 1;
}

// A division in the inner of two loops, with its slow path.
__global__ void quotients(const float* x, const float* d, float* y, int rows, int columns) {
#pragma unroll 1
  for (int r = blockIdx.x; r < rows; r += gridDim.x) {
    const float by = d[r];
#pragma unroll 1
    for (int c = threadIdx.x; c < columns; c += blockDim.x) y[r * columns + c] = x[r * columns + c] / by;
  }
}

// More values at once than registers: volatile, so that none is read a second time.
__global__ void __launch_bounds__(1024, 2) spilling(const volatile float* x, float* y, int n) {
  float v[48];
#pragma unroll
  for (int k = 0; k < 48; ++k) v[k] = x[threadIdx.x + k * n];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 48; ++k) y[threadIdx.x * 48 + k] = v[(k + 17) % 48] * v[k];
}

// A value is loaded for the next round: it is in flight across the end of the loop.
__global__ void pipelined(const double* __restrict__ x, double* __restrict__ y, int n) {
  double next = x[threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    const double now = next;
    next = x[threadIdx.x + 32 * (i + 1)];
    y[threadIdx.x + 32 * i] = now + 1.0;
  }
}

// A jump by table in a loop.
__global__ void table(const int* x, int* y, int n) {
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    int v = x[i];
    switch (v) {
      case 0:
        v = y[i + 1] * 3;
        break;
      case 1:
        v = y[i + 2] / 7;
        break;
      case 2:
        y[i + 5] = 9;
        break;
      case 3:
        v = y[i] ^ 77;
        break;
      case 4:
        v = __popc(v + y[i + 4]);
        break;
      case 5:
        atomicAdd(y + i, 4);
        break;
      case 6:
        v = __brev(y[i + 9]);
        break;
      case 7:
        v = y[2 * i] - y[3 * i];
        break;
    }
    y[i] = v;
  }
}

// Static shared memory and a loop that moves nothing inside of the one that does.
__global__ void staged(const float* x, float* y, int n, int turns) {
  __shared__ float tile[256];
#pragma unroll 1
  for (int i = threadIdx.x; i < n; i += 256) {
    tile[threadIdx.x] = x[i];
    __syncthreads();
    float sum = 0;
#pragma unroll 1
    for (int k = 0; k < turns; ++k) sum += tile[(threadIdx.x + k) & 255];
    __syncthreads();
    y[i] = sum;
  }
}

}  // namespace braid_cuda_cards
