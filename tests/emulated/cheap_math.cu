#include "runtime/cuda_program.h"
#include "runtime/device/cheap_math.h"
#include "tests/emulated/cheap_math.h"
#include "tests/emulated/check.h"

namespace {

using namespace braid::rt::device;

__device__ float cheap_value(CheapMath f, float x, float y) {
  switch (f) {
    case CheapMath::quotient:
      return math::cheap::quotient(x, math::cheap::Reciprocal(y));
    case CheapMath::quotient_in_range:
      return math::cheap::product(x, math::cheap::reciprocal_in_range(y));
    case CheapMath::reciprocal:
      return math::cheap::reciprocal(x);
    case CheapMath::rsqrt:
      return math::cheap::rsqrt(x);
    case CheapMath::sqrt:
      return math::cheap::sqrt(x);
    case CheapMath::sigmoid:
      return math::cheap::sigmoid(x);
    case CheapMath::exp_for_half:
      return math::cheap::exp_for_half(x);
    case CheapMath::erf_for_half:
      return math::cheap::erf_for_half(x);
  }
  return 0.0f;
}

__global__ void cheap_math_kernel(CheapMath f, const float* x, const float* y, float* out, int64_t count) {
  for (int64_t k = math::first_index<int64_t>(); k < count; k += math::index_stride<int64_t>())
    out[k] = cheap_value(f, x[k], y[k]);
}

}  // namespace

const char* run_cheap_math(CheapMath f, const float* x, const float* y, float* out, int64_t count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  float *device_x = nullptr, *device_y = nullptr, *device_out = nullptr;
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaMalloc(&device_x, bytes));
  CHECK_CUDA(cudaMalloc(&device_y, bytes));
  CHECK_CUDA(cudaMalloc(&device_out, bytes));
  CHECK_CUDA(cudaMemcpyAsync(device_x, x, bytes, cudaMemcpyHostToDevice, stream));
  CHECK_CUDA(cudaMemcpyAsync(device_y, y, bytes, cudaMemcpyHostToDevice, stream));
  CHECK_CUDA(BRAID_LAUNCH(cheap_math_kernel, 64, 32, 0, stream, f, device_x, device_y, device_out, count));
  CHECK_CUDA(cudaMemcpyAsync(out, device_out, bytes, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaFree(device_x));
  CHECK_CUDA(cudaFree(device_y));
  CHECK_CUDA(cudaFree(device_out));
  CHECK_CUDA(cudaStreamDestroy(stream));
  return nullptr;
}
