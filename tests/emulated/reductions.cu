#include "runtime/cuda_program.h"
#include "tests/emulated/check.h"
#include "tests/emulated/reductions.h"

namespace {

using namespace braid::rt::device;

__global__ void reductions_kernel(const float* in, ReductionResults* out) {
  const int i = static_cast<int>(threadIdx.x);
  const float value = in[i];
  const int whole = static_cast<int>(value * 8.0f);
  out->float_sum[i] = block_reduce<Sum>(value);
  out->float_max[i] = block_reduce<Maximum>(value);
  out->float_min[i] = block_reduce<Minimum>(value);
  out->double_sum[i] = block_reduce<Sum>(static_cast<double>(value));
  out->int_sum[i] = block_reduce<Sum>(whole);
  out->int_max[i] = block_reduce<Maximum>(whole);
  out->int_min[i] = block_reduce<Minimum>(whole);
  out->xored[i] = __shfl_xor_sync(0xffffffffu, value, 5);
  out->up[i] = __shfl_up_sync(0xffffffffu, value, 3);
  out->down[i] = __shfl_down_sync(0xffffffffu, value, 3, 8);
  out->broadcast[i] = __shfl_sync(0xffffffffu, whole, 7);
  // The two halves of a warp in operations of their own.
  const unsigned half = i % 32 < 16 ? 0x0000ffffu : 0xffff0000u;
  int sum = whole;
  for (int distance = 8; distance > 0; distance /= 2) sum += __shfl_xor_sync(half, sum, distance);
  out->half_warp[i] = sum;
  out->ballot[i] = __ballot_sync(0xffffffffu, whole % 2 == 0);
  out->count[i] = __syncthreads_count(whole > 0);
}

}  // namespace

const char* run_reductions(int threads, ReductionResults* results) {
  float host[kMaxReductionThreads];
  for (int i = 0; i < threads; ++i) host[i] = reduction_value(i);
  float* in = nullptr;
  ReductionResults* out = nullptr;
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaMalloc(&in, sizeof host));
  CHECK_CUDA(cudaMalloc(&out, sizeof *out));
  CHECK_CUDA(cudaMemsetAsync(out, 0, sizeof *out, stream));
  CHECK_CUDA(cudaMemcpyAsync(in, host, threads * sizeof(float), cudaMemcpyHostToDevice, stream));
  CHECK_CUDA(BRAID_LAUNCH(reductions_kernel, 1, threads, 0, stream, in, out));
  CHECK_CUDA(cudaMemcpyAsync(results, out, sizeof *out, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaFree(in));
  CHECK_CUDA(cudaFree(out));
  CHECK_CUDA(cudaStreamDestroy(stream));
  return nullptr;
}
