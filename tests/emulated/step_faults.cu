#include "runtime/cuda_program.h"
#include "tests/emulated/check.h"
#include "tests/emulated/step_faults.h"

namespace {

constexpr int kCount = 64;
constexpr size_t kBytes = kCount * sizeof(float);

__global__ void scale_kernel(const float* in, float* out, float factor) {
  out[threadIdx.x] = in[threadIdx.x] * factor;
}
__global__ void write_past_end_kernel(float* out) { out[kCount] = 1.0f; }

struct Program {
  ncclComm_t comm = nullptr;
  cudaStream_t caller = nullptr, second = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  float *a = nullptr, *b = nullptr, *c = nullptr, *pinned = nullptr;
  char* segment = nullptr;

  const char* create(const FaultRun& run) {
    CHECK_CUDA(cudaSetDevice(run.rank));
    ncclUniqueId id;
    for (int i = 0; i < 128; ++i) id.internal[i] = run.id[i];
    CHECK_NCCL(ncclCommInitRank(&comm, run.ranks, id, run.rank));
    CHECK_CUDA(cudaStreamCreateWithFlags(&caller, cudaStreamNonBlocking));
    CHECK_CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CHECK_CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK_CUDA(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    for (float** memory : {&a, &b, &c}) CHECK_CUDA(cudaMalloc(memory, kBytes));
    CHECK_CUDA(cudaMallocHost(&pinned, kBytes));
    CHECK_NCCL(ncclMemAlloc(reinterpret_cast<void**>(&segment), 4096));
    return nullptr;
  }
  const char* destroy() {
    CHECK_CUDA(cudaStreamSynchronize(caller));
    CHECK_CUDA(cudaStreamSynchronize(second));
    for (float* memory : {a, b, c}) CHECK_CUDA(cudaFree(memory));
    CHECK_CUDA(cudaFreeHost(pinned));
    CHECK_NCCL(ncclMemFree(segment));
    for (cudaEvent_t event : {fork, join}) CHECK_CUDA(cudaEventDestroy(event));
    for (cudaStream_t stream : {caller, second}) CHECK_CUDA(cudaStreamDestroy(stream));
    CHECK_NCCL(ncclCommDestroy(comm));
    return nullptr;
  }

  const char* step(StepFault fault);
  const char* forbidden(StepFault fault);
};

// Makes a call that a step must not make; the caller undoes it where necessary.
const char* Program::forbidden(StepFault fault) {
  float* memory = nullptr;
  void* handle = nullptr;
  float host[kCount];
  switch (fault) {
    case StepFault::kMalloc:
      CHECK_CUDA(cudaMalloc(&memory, kBytes));
      break;
    case StepFault::kFree:
      CHECK_CUDA(cudaFree(c));
      c = nullptr;
      break;
    case StepFault::kHostAlloc:
      CHECK_CUDA(cudaHostAlloc(&handle, kBytes, cudaHostAllocDefault));
      break;
    case StepFault::kNcclMemAlloc:
      CHECK_NCCL(ncclMemAlloc(&handle, kBytes));
      break;
    case StepFault::kRegister:
      CHECK_NCCL(ncclCommRegister(comm, segment, 4096, &handle));
      break;
    case StepFault::kStreamSynchronize:
      CHECK_CUDA(cudaStreamSynchronize(second));
      break;
    case StepFault::kDeviceSynchronize:
      CHECK_CUDA(cudaDeviceSynchronize());
      break;
    case StepFault::kEventSynchronize:
      CHECK_CUDA(cudaEventSynchronize(fork));
      break;
    case StepFault::kPageableCopy:
      CHECK_CUDA(cudaMemcpyAsync(host, a, kBytes, cudaMemcpyDeviceToHost, caller));
      break;
    case StepFault::kBlockingCopy:
      CHECK_CUDA(cudaMemcpy(host, a, kBytes, cudaMemcpyDeviceToHost));
      break;
    case StepFault::kCreateStream: {
      cudaStream_t stream;
      CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      break;
    }
    case StepFault::kCreateEvent: {
      cudaEvent_t event;
      CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      break;
    }
    case StepFault::kSplit: {
      ncclComm_t part;
      CHECK_NCCL(ncclCommSplit(comm, 0, 0, &part, nullptr));
      break;
    }
    case StepFault::kInstantiate: {
      cudaGraph_t graph;
      cudaGraphExec_t executable;
      CHECK_CUDA(cudaStreamBeginCapture(second, cudaStreamCaptureModeThreadLocal));
      CHECK_CUDA(cudaStreamEndCapture(second, &graph));
      CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
      CHECK_CUDA(cudaGraphExecDestroy(executable));
      CHECK_CUDA(cudaGraphDestroy(graph));
      break;
    }
    default:
      break;
  }
  return nullptr;
}

const char* Program::step(StepFault fault) {
  braid::rt::cuda::StepScope scope(caller);
  CHECK_CUDA(cudaEventRecord(fork, caller));
  if (fault != StepFault::kNoFork) CHECK_CUDA(cudaStreamWaitEvent(second, fork, 0));
  BRAID_LABEL("mlp (Mul)");
  CHECK_CUDA(BRAID_LAUNCH(scale_kernel, 1, kCount, 0, second, a, b, 2.0f));
  if (const char* error = forbidden(fault)) return error;
  if (fault == StepFault::kUncheckedLaunch)
    (void)BRAID_LAUNCH(scale_kernel, 1, kCount, 0, second, a, b, 2.0f);
  if (fault == StepFault::kUncheckedFailedLaunch)
    (void)static_cast<cudaError_t>(BRAID_LAUNCH(scale_kernel, 1, 2048, 0, second, a, b, 2.0f));
  if (fault == StepFault::kUncheckedCopy) cudaMemcpyAsync(b, nullptr, kBytes, cudaMemcpyDefault, second);
  if (fault == StepFault::kFailedStep) CHECK_CUDA(BRAID_LAUNCH(scale_kernel, 1, 2048, 0, second, a, b, 2.0f));
  if (fault == StepFault::kGroupLeftOpen) CHECK_NCCL(ncclGroupStart());
  CHECK_CUDA(cudaEventRecord(join, second));
  BRAID_LABEL("late (Mul)");
  if (fault == StepFault::kLateLaunch)
    CHECK_CUDA(BRAID_LAUNCH(scale_kernel, 1, kCount, 0, second, a, b, 2.0f));
  if (fault != StepFault::kNoJoin) CHECK_CUDA(cudaStreamWaitEvent(caller, join, 0));
  BRAID_LABEL("");
  scope.done();
  if (fault == StepFault::kGroupLeftOpen) CHECK_NCCL(ncclGroupEnd());
  return nullptr;
}

}  // namespace

const char* run_step(const FaultRun& run, StepFault fault) {
  Program program;
  if (const char* error = program.create(run)) return error;
  CHECK_CUDA(cudaMemsetAsync(program.a, 0, kBytes, program.caller));
  if (const char* error = program.step(fault)) return error;
  // The next kernel on the caller's stream depends on the step.
  CHECK_CUDA(BRAID_LAUNCH(scale_kernel, 1, kCount, 0, program.caller, program.b, program.a, 3.0f));
  return program.destroy();
}

const char* calls_after_a_fault() {
  cudaStream_t stream = nullptr, other = nullptr;
  cudaEvent_t event = nullptr, recorded = nullptr;
  float* memory = nullptr;
  void* host = nullptr;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaEventCreateWithFlags(&recorded, cudaEventDisableTiming));
  CHECK_CUDA(cudaMalloc(&memory, kBytes));
  CHECK_CUDA(cudaEventRecord(recorded, stream));  // before: the kernel may fail at once
  CHECK_CUDA(BRAID_LAUNCH(write_past_end_kernel, 1, 1, 0, stream, memory));
  if (cudaStreamSynchronize(stream) != cudaErrorIllegalAddress) return "cudaStreamSynchronize";
#define STICKY(call) \
  if ((call) != cudaErrorIllegalAddress) return #call
  STICKY(BRAID_LAUNCH(scale_kernel, 1, kCount, 0, stream, memory, memory, 1.0f));
  STICKY(cudaMemcpyAsync(memory, memory, kBytes, cudaMemcpyDeviceToDevice, stream));
  STICKY(cudaMemsetAsync(memory, 0, kBytes, stream));
  STICKY(cudaMalloc(&memory, kBytes));
  STICKY(cudaHostAlloc(&host, kBytes, cudaHostAllocDefault));
  STICKY(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  STICKY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  STICKY(cudaEventRecord(recorded, stream));
  STICKY(cudaStreamWaitEvent(stream, recorded, 0));
  STICKY(cudaEventSynchronize(recorded));
  STICKY(cudaEventQuery(recorded));
  STICKY(cudaStreamQuery(stream));
  STICKY(cudaDeviceSynchronize());
  STICKY(cudaGetLastError());
  STICKY(cudaGetLastError());
#undef STICKY
  return nullptr;
}
