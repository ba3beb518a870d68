#include <cstring>

#include "tests/emulated/faults.h"

#define BRAID_PEER_WINDOWS
#include "runtime/cuda_program.h"
#include "tests/emulated/check.h"

namespace {

__global__ void set_kernel(float* out, float value, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = value;
}

__global__ void copy_kernel(const float* in, float* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = in[i];
}

__global__ void read_peer_kernel(ncclWindow_t window, int peer, float* out, int n) {
  const float* theirs = braid::rt::device::peer_pointer<float>(window, 0, peer);
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = theirs[i];
}

__global__ void exit_before_barrier_kernel(float* out) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  out[threadIdx.x] = 1.0f;
}

__global__ void two_barriers_kernel(float* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
    out[threadIdx.x] = 1.0f;
  } else {
    __syncthreads();
    out[threadIdx.x] = 2.0f;
  }
}

__global__ void lane_missing_kernel(float* out) {
  float value = 1.0f;
  if (threadIdx.x != 5) value = __shfl_xor_sync(0xffffffffu, value, 1);
  out[threadIdx.x] = value;
}

__global__ void lane_outside_mask_kernel(float* out) { out[threadIdx.x] = __shfl_sync(0xffffu, 1.0f, 0); }

__global__ void reverse_in_shared_kernel(const float* in, float* out) {
  BRAID_SHARED(float, tile, 64);
  BRAID_DYNAMIC_SHARED(float, dynamic);
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  dynamic[threadIdx.x] = tile[63 - threadIdx.x];
  __syncthreads();
  out[63 - threadIdx.x] = dynamic[63 - threadIdx.x] + tile[0] * 0.0f;
}

__global__ void halves_kernel(unsigned short* out, int offset, int n) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < n) out[2 * i + offset] = static_cast<unsigned short>(i);
}

__global__ void count_kernel(int* counter, bool plain) {
  if (plain)
    *counter += 1;
  else
    atomicAdd(counter, 1);
}

const char* join(const FaultRun& run, ncclComm_t* comm) {
  CHECK_CUDA(cudaSetDevice(run.rank));
  ncclUniqueId id;
  for (int i = 0; i < 128; ++i) id.internal[i] = run.id[i];
  CHECK_NCCL(ncclCommInitRank(comm, run.ranks, id, run.rank));
  return nullptr;
}

}  // namespace

const char* read_peer_directly(const FaultRun& run, bool exit_barrier, float* sum) {
  const int n = 512;
  const size_t bytes = 8192;
  ncclComm_t comm;
  if (const char* error = join(run, &comm)) return error;
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  float *segment = nullptr, *local = nullptr, *token = nullptr;
  CHECK_NCCL(ncclMemAlloc(reinterpret_cast<void**>(&segment), bytes));
  ncclWindow_t window;
  CHECK_NCCL(ncclCommWindowRegister(comm, segment, bytes, &window, NCCL_WIN_COLL_SYMMETRIC));
  CHECK_CUDA(cudaMalloc(&local, n * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&token, sizeof(float)));
  CHECK_CUDA(cudaMemsetAsync(token, 0, sizeof(float), stream));
  BRAID_LABEL("write own (Constant)");
  CHECK_CUDA(BRAID_LAUNCH(set_kernel, 2, 256, 0, stream, segment, run.rank + 1.0f, n));
  BRAID_LABEL("entry barrier");
  CHECK_NCCL(ncclAllReduce(token, token, 1, ncclFloat32, ncclSum, comm, stream));
  BRAID_LABEL("read neighbour (AllGather)");
  CHECK_CUDA(BRAID_LAUNCH(read_peer_kernel, 2, 256, 0, stream, window, (run.rank + 1) % run.ranks, local, n));
  if (exit_barrier) {
    BRAID_LABEL("exit barrier");
    CHECK_NCCL(ncclAllReduce(token, token, 1, ncclFloat32, ncclSum, comm, stream));
  }
  BRAID_LABEL("next tenant (Add)");
  CHECK_CUDA(BRAID_LAUNCH(set_kernel, 2, 256, 0, stream, segment, -1.0f, n));
  float host[512];
  CHECK_CUDA(cudaMemcpyAsync(host, local, sizeof host, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  // Freeing is one more overwrite: only a barrier makes it safe.
  CHECK_NCCL(ncclAllReduce(token, token, 1, ncclFloat32, ncclSum, comm, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  *sum = 0.0f;
  for (int i = 0; i < n; ++i) *sum += host[i];
  CHECK_NCCL(ncclCommWindowDeregister(comm, window));
  CHECK_NCCL(ncclMemFree(segment));
  CHECK_CUDA(cudaFree(local));
  CHECK_CUDA(cudaFree(token));
  CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_NCCL(ncclCommDestroy(comm));
  return nullptr;
}

const char* run_single(SingleFault fault) {
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  float *a = nullptr, *b = nullptr;
  CHECK_CUDA(cudaMalloc(&a, 64 * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&b, 64 * sizeof(float)));
  cudaError_t launched = cudaSuccess;
  CHECK_CUDA(BRAID_LAUNCH(set_kernel, 1, 64, 0, stream, b, 3.0f, 64));
  BRAID_LABEL("node");
  switch (fault) {
    case SingleFault::kNone:
      launched = BRAID_LAUNCH(copy_kernel, 1, 64, 0, stream, b, a, 64);
      break;
    case SingleFault::kWritePastEnd:
      launched = BRAID_LAUNCH(copy_kernel, 1, 65, 0, stream, b - 1 + 1, a, 65);
      break;
    case SingleFault::kReadBeforeStart:
      launched = BRAID_LAUNCH(copy_kernel, 1, 64, 0, stream, b - 2, a, 64);
      break;
    case SingleFault::kUseAfterFree:
      CHECK_CUDA(cudaFree(b));
      launched = BRAID_LAUNCH(copy_kernel, 1, 64, 0, stream, b, a, 64);
      break;
    case SingleFault::kReadUninitialized:
      CHECK_CUDA(BRAID_LAUNCH(set_kernel, 1, 64, 0, stream, a, 1.0f, 32));
      launched = BRAID_LAUNCH(copy_kernel, 1, 64, 0, stream, a, b, 64);
      break;
    case SingleFault::kExitBeforeBarrier:
      launched = BRAID_LAUNCH(exit_before_barrier_kernel, 1, 64, 0, stream, a);
      break;
    case SingleFault::kTwoBarriers:
      launched = BRAID_LAUNCH(two_barriers_kernel, 1, 64, 0, stream, a);
      break;
    case SingleFault::kLaneMissing:
      launched = BRAID_LAUNCH(lane_missing_kernel, 1, 64, 0, stream, a);
      break;
    case SingleFault::kLaneOutsideMask:
      launched = BRAID_LAUNCH(lane_outside_mask_kernel, 1, 32, 0, stream, a);
      break;
    case SingleFault::kTooMuchSharedMemory:
      launched = BRAID_LAUNCH(reverse_in_shared_kernel, 1, 64, 100 * 1024, stream, b, a);
      break;
    case SingleFault::kSharedSynchronised:
      launched = BRAID_LAUNCH(reverse_in_shared_kernel, 1, 64, 64 * sizeof(float), stream, b, a);
      break;
  }
  if (launched != cudaSuccess) return cudaGetErrorName(launched);
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaFree(a));
  if (fault != SingleFault::kUseAfterFree) CHECK_CUDA(cudaFree(b));
  CHECK_CUDA(cudaStreamDestroy(stream));
  return nullptr;
}

float host_reads_device() {
  float* a = nullptr;
  if (cudaMalloc(&a, 64 * sizeof(float)) != cudaSuccess) return 0.0f;
  if (cudaMemset(a, 0, 64 * sizeof(float)) != cudaSuccess) return 0.0f;
  float sum = 0.0f;
  for (int i = 0; i < 64; ++i) sum += a[i];
  return cudaFree(a) == cudaSuccess ? sum : 0.0f;
}

float host_copies_device() {
  float* a = nullptr;
  if (cudaMalloc(&a, 64 * sizeof(float)) != cudaSuccess) return 0.0f;
  float host[64] = {};
  size_t bytes = sizeof host;
  asm volatile("" : "+r"(bytes));
  std::memcpy(host, a, bytes);
  const float first = host[0];
  return cudaFree(a) == cudaSuccess ? first : 0.0f;
}

const char* write_neighbouring_halves(bool same_half) {
  cudaStream_t streams[2];
  unsigned short* out = nullptr;
  CHECK_CUDA(cudaMalloc(&out, 256));
  for (auto& stream : streams) CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(BRAID_LAUNCH(halves_kernel, 1, 64, 0, streams[0], out, 0, 64));
  CHECK_CUDA(BRAID_LAUNCH(halves_kernel, 1, 64, 0, streams[1], out, same_half ? 0 : 1, 64));
  for (auto& stream : streams) CHECK_CUDA(cudaStreamSynchronize(stream));
  for (auto& stream : streams) CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_CUDA(cudaFree(out));
  return nullptr;
}

const char* count_from_two_streams(bool plain, int* result) {
  cudaStream_t streams[2];
  int* counter = nullptr;
  CHECK_CUDA(cudaMalloc(&counter, sizeof(int)));
  CHECK_CUDA(cudaMemset(counter, 0, sizeof(int)));
  for (auto& stream : streams) CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (auto& stream : streams) CHECK_CUDA(BRAID_LAUNCH(count_kernel, 4, 64, 0, stream, counter, plain));
  for (auto& stream : streams) CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK_CUDA(cudaMemcpy(result, counter, sizeof(int), cudaMemcpyDeviceToHost));
  for (auto& stream : streams) CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_CUDA(cudaFree(counter));
  return nullptr;
}

const char* run_comm(const FaultRun& run, CommFault fault) {
  const size_t slot = 4096, bytes = 4 * slot;
  const int n = 256;
  ncclComm_t comm;
  if (const char* error = join(run, &comm)) return error;
  const bool odd = run.rank == 1;
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  char *segment = nullptr, *plain = nullptr;
  CHECK_NCCL(ncclMemAlloc(reinterpret_cast<void**>(&segment), bytes));
  CHECK_CUDA(cudaMalloc(&plain, bytes));
  CHECK_CUDA(cudaMemsetAsync(segment, 0, bytes, stream));
  CHECK_CUDA(cudaMemsetAsync(plain, 0, bytes, stream));
  char* base = fault == CommFault::kWindowOfCudaMalloc ? plain : segment;
  if (fault == CommFault::kWindowOffsetsDiffer && odd) base += slot;
  const size_t size =
      fault == CommFault::kWindowOffsetsDiffer || (fault == CommFault::kWindowSizesDiffer && odd) ? 2 * slot
                                                                                                  : bytes;
  ncclWindow_t window;
  CHECK_NCCL(ncclCommWindowRegister(comm, base, size, &window, NCCL_WIN_COLL_SYMMETRIC));
  char* send = segment;
  char* recv = segment + slot;
  if (fault == CommFault::kBufferOffsetsDiffer && odd) recv += slot;
  if (fault == CommFault::kOverlappingBuffers) recv = send + 16;
  float host[256] = {};
  if (fault == CommFault::kNotDeviceMemory && odd) send = reinterpret_cast<char*>(host);
  BRAID_LABEL("block.0 (AllReduce)");
  switch (fault) {
    case CommFault::kRankMissing:
      if (!odd) CHECK_NCCL(ncclAllReduce(send, recv, n, ncclFloat32, ncclSum, comm, stream));
      break;
    case CommFault::kRootDiffers:
      CHECK_NCCL(ncclBroadcast(send, recv, n, ncclFloat32, run.rank, comm, stream));
      break;
    case CommFault::kSendsBeforeReceives:
    case CommFault::kGroupedSendsAndReceives: {
      const int peer = 1 - run.rank;
      if (fault == CommFault::kGroupedSendsAndReceives) CHECK_NCCL(ncclGroupStart());
      CHECK_NCCL(ncclSend(send, n, ncclFloat32, peer, comm, stream));
      CHECK_NCCL(ncclRecv(recv, n, ncclFloat32, peer, comm, stream));
      if (fault == CommFault::kGroupedSendsAndReceives) CHECK_NCCL(ncclGroupEnd());
      break;
    }
    default:
      CHECK_NCCL(ncclAllReduce(send, recv, fault == CommFault::kCountDiffers && odd ? n - 1 : n, ncclFloat32,
                               ncclSum, comm, stream));
  }
  if (const char* error = finish_or_abort(stream, comm, 1000)) return error;
  if (fault == CommFault::kFreeWhileRegistered) {
    CHECK_NCCL(ncclMemFree(segment));
    CHECK_NCCL(ncclCommWindowDeregister(comm, window));
  } else {
    CHECK_NCCL(ncclCommWindowDeregister(comm, window));
    CHECK_NCCL(ncclMemFree(segment));
  }
  CHECK_CUDA(cudaFree(plain));
  CHECK_CUDA(cudaStreamDestroy(stream));
  CHECK_NCCL(ncclCommDestroy(comm));
  return nullptr;
}
