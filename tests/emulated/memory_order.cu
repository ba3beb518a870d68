#include "runtime/cuda_program.h"
#include "tests/emulated/check.h"
#include "tests/emulated/memory_order.h"

namespace {

constexpr unsigned kThreads = 64;
constexpr unsigned kSpeaker = 63;  // the thread that raises, or waits for, the flag: the last to run

__device__ void raise(unsigned* flag, HandOver how) {
  switch (how) {
    case HandOver::kReleaseAcquire:
    case HandOver::kRelaxedLoad:
    case HandOver::kNoBarrierBeforeRaise:
    case HandOver::kNoBarrierAfterWait:
    case HandOver::kWrittenAfterRaise:
      __atomic_store_n(flag, 1u, __ATOMIC_RELEASE);
      break;
    case HandOver::kRelaxedStore:
      __atomic_store_n(flag, 1u, __ATOMIC_RELAXED);
      break;
    case HandOver::kFences:
    case HandOver::kNoFenceAfterWait:
      __threadfence_system();
      atomicExch_system(flag, 1u);
      break;
    case HandOver::kNoFenceBeforeRaise:
      atomicExch_system(flag, 1u);
      break;
    case HandOver::kFencesOfTheDevice:
      __threadfence();
      atomicExch_system(flag, 1u);
      break;
    case HandOver::kAtomicsOfTheDevice:
      __threadfence_system();
      atomicExch(flag, 1u);
      break;
  }
}

__device__ void await(unsigned* flag, HandOver how) {
  switch (how) {
    case HandOver::kReleaseAcquire:
    case HandOver::kRelaxedStore:
    case HandOver::kNoBarrierBeforeRaise:
    case HandOver::kNoBarrierAfterWait:
    case HandOver::kWrittenAfterRaise:
      while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) {
      }
      break;
    case HandOver::kRelaxedLoad:
      while (__atomic_load_n(flag, __ATOMIC_RELAXED) == 0) {
      }
      break;
    case HandOver::kFences:
    case HandOver::kNoFenceBeforeRaise:
      while (atomicCAS_system(flag, 1u, 0u) != 1u) {
      }
      __threadfence_system();
      break;
    case HandOver::kNoFenceAfterWait:
      while (atomicCAS_system(flag, 1u, 0u) != 1u) {
      }
      break;
    case HandOver::kFencesOfTheDevice:
      while (atomicCAS_system(flag, 1u, 0u) != 1u) {
      }
      __threadfence();
      break;
    case HandOver::kAtomicsOfTheDevice:
      while (atomicCAS(flag, 1u, 0u) != 1u) {
      }
      __threadfence_system();
      break;
  }
}

__global__ void give_kernel(float* data, unsigned* flag, HandOver how) {
  if (how != HandOver::kWrittenAfterRaise) data[threadIdx.x] = 1.0f;
  if (how != HandOver::kNoBarrierBeforeRaise) __syncthreads();
  if (threadIdx.x == kSpeaker) raise(flag, how);
  if (how == HandOver::kWrittenAfterRaise) data[threadIdx.x] = 1.0f;
}
__global__ void take_kernel(const float* data, unsigned* flag, HandOver how, float* out) {
  if (threadIdx.x == kSpeaker) await(flag, how);
  if (how != HandOver::kNoBarrierAfterWait) __syncthreads();
  out[threadIdx.x] = data[threadIdx.x];
}

__global__ void last_block_kernel(float* parts, unsigned* done, LastBlock how, float* sum) {
  BRAID_SHARED(bool, last, 1);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = 1.0f;
    if (how == LastBlock::kRight || how == LastBlock::kNoFenceAfter) __threadfence();
    last[0] = atomicAdd(done, 1u) == gridDim.x - 1;
    if (how == LastBlock::kRight || how == LastBlock::kNoFenceBefore) __threadfence();
  }
  __syncthreads();
  if (!last[0] || threadIdx.x != 1) return;
  float total = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) total += parts[i];
  *sum = total;
}

// Adds 1 whenever it is this kernel's turn.
__global__ void turns_kernel(float* value, unsigned* turn, unsigned mine, bool fences) {
  for (int k = 0; k < 3; ++k) {
    while (atomicCAS(turn, mine, 2u) != mine) {
    }
    if (fences) __threadfence();
    *value += 1.0f;
    if (fences) __threadfence();
    atomicExch(turn, 1u - mine);
  }
}

}  // namespace

const char* hand_over(HandOver how, bool two_devices, float* result) {
  float *data = nullptr, *out = nullptr;
  unsigned* flag = nullptr;
  cudaStream_t from, to;
  CHECK_CUDA(cudaSetDevice(0));
  CHECK_CUDA(cudaMalloc(&data, kThreads * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&flag, sizeof(unsigned)));
  CHECK_CUDA(cudaMemset(flag, 0, sizeof(unsigned)));
  CHECK_CUDA(cudaMemset(data, 0, kThreads * sizeof(float)));
  CHECK_CUDA(cudaStreamCreateWithFlags(&from, cudaStreamNonBlocking));
  CHECK_CUDA(cudaSetDevice(two_devices ? 1 : 0));
  CHECK_CUDA(cudaMalloc(&out, kThreads * sizeof(float)));
  CHECK_CUDA(cudaStreamCreateWithFlags(&to, cudaStreamNonBlocking));
  BRAID_LABEL("take");
  CHECK_CUDA(BRAID_LAUNCH(take_kernel, 1, kThreads, 0, to, data, flag, how, out));
  CHECK_CUDA(cudaSetDevice(0));
  BRAID_LABEL("give");
  CHECK_CUDA(BRAID_LAUNCH(give_kernel, 1, kThreads, 0, from, data, flag, how));
  CHECK_CUDA(cudaStreamSynchronize(from));
  CHECK_CUDA(cudaSetDevice(two_devices ? 1 : 0));
  CHECK_CUDA(cudaMemcpyAsync(result, out, sizeof(float), cudaMemcpyDeviceToHost, to));
  CHECK_CUDA(cudaStreamSynchronize(to));
  CHECK_CUDA(cudaFree(out));
  CHECK_CUDA(cudaStreamDestroy(to));
  CHECK_CUDA(cudaSetDevice(0));
  CHECK_CUDA(cudaFree(data));
  CHECK_CUDA(cudaFree(flag));
  CHECK_CUDA(cudaStreamDestroy(from));
  return nullptr;
}

const char* sum_in_last_block(LastBlock how, float* result) {
  float *parts = nullptr, *sum = nullptr;
  unsigned* done = nullptr;
  CHECK_CUDA(cudaMalloc(&parts, 16 * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&sum, sizeof(float)));
  CHECK_CUDA(cudaMalloc(&done, sizeof(unsigned)));
  CHECK_CUDA(cudaMemset(done, 0, sizeof(unsigned)));
  CHECK_CUDA(BRAID_LAUNCH(last_block_kernel, 16, 64, 0, nullptr, parts, done, how, sum));
  CHECK_CUDA(cudaMemcpy(result, sum, sizeof(float), cudaMemcpyDeviceToHost));
  CHECK_CUDA(cudaFree(parts));
  CHECK_CUDA(cudaFree(sum));
  CHECK_CUDA(cudaFree(done));
  return nullptr;
}

const char* take_turns(bool with_fences, float* result) {
  float* value = nullptr;
  unsigned* turn = nullptr;
  cudaStream_t streams[2];
  CHECK_CUDA(cudaMalloc(&value, sizeof(float)));
  CHECK_CUDA(cudaMalloc(&turn, sizeof(unsigned)));
  CHECK_CUDA(cudaMemset(value, 0, sizeof(float)));
  CHECK_CUDA(cudaMemset(turn, 0, sizeof(unsigned)));
  for (auto& stream : streams) CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (unsigned k = 0; k < 2; ++k)
    CHECK_CUDA(BRAID_LAUNCH(turns_kernel, 1, 1, 0, streams[k], value, turn, k, with_fences));
  for (auto& stream : streams) CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaMemcpy(result, value, sizeof(float), cudaMemcpyDeviceToHost));
  for (auto& stream : streams) CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_CUDA(cudaFree(value));
  CHECK_CUDA(cudaFree(turn));
  return nullptr;
}
