#include <chrono>
#include <thread>

#include "tests/emulated/flags.h"

#define BRAID_PEER_ACCESS
#include "runtime/cuda_program.h"
#include "tests/emulated/check.h"

namespace {

using namespace braid::rt::device;

constexpr int kElements = 4 * kPeerThreads;  // a block's share: kPeerThreads
constexpr int kBlocks = 4;
constexpr size_t kInput = 0, kMiddle = kElements * sizeof(float), kFlags = 2 * kMiddle;
constexpr size_t kWindow = 32768;

__global__ void fill_kernel(float* out, float value) { out[blockIdx.x * blockDim.x + threadIdx.x] = value; }

// middle = sum of all inputs; output = sum of all middles.
__global__ void sum_twice_kernel(const __grid_constant__ PeerGroup group, FlagFault fault, float* middle,
                                 float* output) {
  const unsigned mine = blockIdx.x * blockDim.x + threadIdx.x;
  if (fault == FlagFault::kOnlyASecondBlockWaits && blockIdx.x == 0) return;
  if (fault == FlagFault::kFlagOutsideOfWindow && mine == 0)
    raise_flag(reinterpret_cast<unsigned*>(middle) + kWindow, group.abandoned);
  if (fault != FlagFault::kNoEntryBarrier && !peer_barrier(group)) return;
  float sum = 0;
  for (int peer = 0; peer < group.ranks; ++peer) sum += at_peer<float>(group, kInput, peer)[mine];
  if (fault != FlagFault::kFlagNotReleased) middle[mine] = sum;
  if (!peer_barrier(group)) return;
  if (fault == FlagFault::kFlagNotReleased) middle[mine] = sum;
  const unsigned theirs = fault == FlagFault::kOtherBlocksRead ? (mine + kPeerThreads) % kElements : mine;
  sum = 0;
  for (int peer = 0; peer < group.ranks; ++peer) sum += at_peer<float>(group, kMiddle, peer)[theirs];
  output[mine] = sum;
  if (fault != FlagFault::kNoExitBarrier) peer_barrier(group);
}

}  // namespace

const char* sum_by_flags(const FaultRun& run, FlagFault fault, int abandon_after_ms, float* sum) {
  CHECK_CUDA(cudaSetDevice(run.rank));
  ncclUniqueId id;
  for (int i = 0; i < 128; ++i) id.internal[i] = run.id[i];
  ncclComm_t comm;
  CHECK_NCCL(ncclCommInitRank(&comm, run.ranks, id, run.rank));
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  char* segment = nullptr;
  float *output = nullptr, *token = nullptr;
  int* abandoned = nullptr;
  CHECK_NCCL(ncclMemAlloc(reinterpret_cast<void**>(&segment), kWindow));
  CHECK_CUDA(cudaMalloc(&output, kElements * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&token, sizeof(float)));
  CHECK_CUDA(cudaHostAlloc(reinterpret_cast<void**>(&abandoned), sizeof(int), cudaHostAllocDefault));
  *abandoned = 0;
  CHECK_CUDA(cudaMemsetAsync(segment + kFlags, 0, kWindow - kFlags, stream));
  CHECK_CUDA(cudaMemsetAsync(token, 0, sizeof(float), stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  ncclWindow_t window;
  CHECK_NCCL(ncclCommWindowRegister(comm, segment, kWindow, &window, NCCL_WIN_COLL_SYMMETRIC));
  PeerGroup group = {};
  for (int peer = 0; peer < run.ranks; ++peer)
    group.segments[peer] = static_cast<char*>(braid::emulated::peer_pointer(window, 0, peer));
  group.flags = kFlags;
  group.abandoned = abandoned;
  group.rank = run.rank;
  group.ranks = run.ranks;
  float* input = reinterpret_cast<float*>(segment + kInput);
  float* middle = reinterpret_cast<float*>(segment + kMiddle);

  BRAID_LABEL("make (Constant)");
  CHECK_CUDA(BRAID_LAUNCH(fill_kernel, kBlocks, kPeerThreads, 0, stream, input, run.rank + 1.0f));
  if (fault != FlagFault::kRankMissing || run.rank != 1) {
    BRAID_LABEL("sum (AllReduce)");
    CHECK_CUDA(
        BRAID_LAUNCH(sum_twice_kernel, kBlocks, kPeerThreads, 0, stream, group, fault, middle, output));
  }
  BRAID_LABEL("next tenant (Add)");
  CHECK_CUDA(BRAID_LAUNCH(fill_kernel, kBlocks, kPeerThreads, 0, stream, middle, -1.0f));
  if (abandon_after_ms > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(abandon_after_ms));
    __atomic_store_n(abandoned, 1, __ATOMIC_RELAXED);
  }
  CHECK_CUDA(cudaStreamSynchronize(stream));
  // Freeing is one more overwrite: only a barrier makes it safe.
  CHECK_NCCL(ncclAllReduce(token, token, 1, ncclFloat32, ncclSum, comm, stream));
  if (const char* error = finish_or_abort(stream, comm, 1000)) return error;
  CHECK_CUDA(cudaMemcpyAsync(sum, output, sizeof(float), cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_NCCL(ncclCommWindowDeregister(comm, window));
  CHECK_NCCL(ncclMemFree(segment));
  CHECK_CUDA(cudaFree(output));
  CHECK_CUDA(cudaFree(token));
  CHECK_CUDA(cudaFreeHost(abandoned));
  CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_NCCL(ncclCommDestroy(comm));
  return nullptr;
}
