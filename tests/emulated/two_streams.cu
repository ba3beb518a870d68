// A hand-written program of the shape that the code generator emits: two streams, events, one AllReduce on a
// registered window; fill -> AllReduce -> gelu -> row softmax. Its plants leave out one thing each.
#include "runtime/cuda_program.h"
#include "tests/emulated/check.h"
#include "tests/emulated/two_streams.h"

namespace {

using braid::rt::device::block_reduce;
using braid::rt::device::Maximum;
using braid::rt::device::Sum;

__global__ void fill_kernel(float* out, int rank, long n) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = static_cast<float>((i * 7 + rank * 3) % 11) * 0.25f - 1.0f;
}

__global__ void gelu_kernel(const float* in, float* out, long n) {
  const long i = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 0.5f * in[i] * (1.0f + erff(in[i] * 0.70710678f));
}

__global__ void softmax_rows_kernel(const float* in, float* out, int columns) {
  const float* row = in + static_cast<long>(blockIdx.x) * columns;
  float* result = out + static_cast<long>(blockIdx.x) * columns;
  float highest = braid::rt::device::Limits<float>::lowest();
  for (int i = threadIdx.x; i < columns; i += blockDim.x) highest = fmaxf(highest, row[i]);
  highest = block_reduce<Maximum>(highest);
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - highest);
  sum = block_reduce<Sum>(sum);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) result[i] = expf(row[i] - highest) / sum;
}

}  // namespace

const char* two_streams_id(char id[128]) {
  ncclUniqueId unique;
  CHECK_NCCL(ncclGetUniqueId(&unique));
  for (int i = 0; i < 128; ++i) id[i] = unique.internal[i];
  return nullptr;
}

const char* two_streams_run(const TwoStreams& run) {
  CHECK_CUDA(cudaSetDevice(run.rank));
  ncclUniqueId unique;
  for (int i = 0; i < 128; ++i) unique.internal[i] = run.id[i];
  ncclComm_t comm;
  CHECK_NCCL(ncclCommInitRank(&comm, run.ranks, unique, run.rank));
  int low = 0, high = 0;
  CHECK_CUDA(cudaDeviceGetStreamPriorityRange(&low, &high));
  cudaStream_t compute, communication;
  CHECK_CUDA(cudaStreamCreateWithPriority(&compute, cudaStreamNonBlocking, low));
  CHECK_CUDA(cudaStreamCreateWithPriority(&communication, cudaStreamNonBlocking, high));
  cudaEvent_t filled, reduced;
  CHECK_CUDA(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
  CHECK_CUDA(cudaEventCreateWithFlags(&reduced, cudaEventDisableTiming));

  const long n = static_cast<long>(run.rows) * run.columns;
  const size_t bytes = n * sizeof(float);
  const size_t slot = (bytes + 255) / 256 * 256;
  const size_t segment_bytes = (2 * slot + 4095) / 4096 * 4096;
  char* segment = nullptr;
  CHECK_NCCL(ncclMemAlloc(reinterpret_cast<void**>(&segment), segment_bytes));
  ncclWindow_t window;
  CHECK_NCCL(ncclCommWindowRegister(comm, segment, segment_bytes, &window, NCCL_WIN_COLL_SYMMETRIC));
  float* input = reinterpret_cast<float*>(segment);
  float* sum = reinterpret_cast<float*>(segment + slot);
  float* activated = nullptr;
  float* output = nullptr;
  CHECK_CUDA(cudaMalloc(&activated, bytes));
  CHECK_CUDA(cudaMalloc(&output, bytes));

  const int block = 256;
  const unsigned blocks = static_cast<unsigned>((n + block - 1) / block);
  for (int step = 0; step < run.steps; ++step) {
    BRAID_LABEL("input (Constant)");
    CHECK_CUDA(BRAID_LAUNCH(fill_kernel, blocks, block, 0, compute, input, run.rank, n));
    CHECK_CUDA(cudaEventRecord(filled, compute));
    if (run.plant != TwoStreamsPlant::kNoEventBeforeCollective)
      CHECK_CUDA(cudaStreamWaitEvent(communication, filled, 0));
    BRAID_LABEL("mlp.reduce (AllReduce)");
    CHECK_NCCL(ncclAllReduce(input, sum, n, ncclFloat32, ncclSum, comm, communication));
    CHECK_CUDA(cudaEventRecord(reduced, communication));
    if (run.plant == TwoStreamsPlant::kOverwriteInputDuringCollective) {
      BRAID_LABEL("early (Reuse)");
      CHECK_CUDA(BRAID_LAUNCH(fill_kernel, blocks, block, 0, compute, input, run.rank, n));
    }
    if (run.plant != TwoStreamsPlant::kNoEventAfterCollective)
      CHECK_CUDA(cudaStreamWaitEvent(compute, reduced, 0));
    BRAID_LABEL("mlp.gelu (Gelu)");
    CHECK_CUDA(BRAID_LAUNCH(gelu_kernel, blocks, block, 0, compute, sum, activated, n));
    BRAID_LABEL("softmax (Softmax)");
    CHECK_CUDA(
        BRAID_LAUNCH(softmax_rows_kernel, run.rows, block, 0, compute, activated, output, run.columns));
    BRAID_LABEL("output");
    CHECK_CUDA(cudaMemcpyAsync(run.output, output, bytes, cudaMemcpyDeviceToHost, compute));
  }
  CHECK_CUDA(cudaStreamSynchronize(compute));
  CHECK_CUDA(cudaStreamSynchronize(communication));

  CHECK_NCCL(ncclCommWindowDeregister(comm, window));
  CHECK_NCCL(ncclMemFree(segment));
  CHECK_CUDA(cudaFree(activated));
  CHECK_CUDA(cudaFree(output));
  CHECK_CUDA(cudaEventDestroy(filled));
  CHECK_CUDA(cudaEventDestroy(reduced));
  CHECK_CUDA(cudaStreamDestroy(compute));
  CHECK_CUDA(cudaStreamDestroy(communication));
  CHECK_NCCL(ncclCommDestroy(comm));
  return nullptr;
}
