#include <cstring>

#include "runtime/cuda_program.h"
#include "tests/emulated/check.h"
#include "tests/emulated/host_buffer_faults.h"

namespace {

constexpr int kCount = 64;
constexpr size_t kBytes = kCount * sizeof(float);

__global__ void write_kernel(float* out) { out[threadIdx.x] = 1.0f; }

}  // namespace

const char* use_host_buffers(HostBufferFault fault) {
  cudaStream_t stream, other;
  cudaEvent_t event;
  float *pinned = nullptr, *memory = nullptr;
  float pageable[kCount] = {};
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK_CUDA(cudaMalloc(&memory, kBytes));
  CHECK_CUDA(cudaMallocHost(&pinned, kBytes));
  for (int i = 0; i < kCount; ++i) pinned[i] = 1.0f;

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  const bool replay = fault == HostBufferFault::kFreedBeforeReplay;
  if (replay) CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  BRAID_LABEL("upload");
  CHECK_CUDA(cudaMemcpyAsync(memory, fault == HostBufferFault::kPageable ? pageable : pinned, kBytes,
                             cudaMemcpyHostToDevice, stream));
  BRAID_LABEL("");
  if (replay) {
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CHECK_CUDA(cudaFreeHost(pinned));
    pinned = nullptr;
    CHECK_CUDA(cudaGraphLaunch(executable, stream));
    CHECK_CUDA(cudaStreamSynchronize(stream));
  }
  float sum = 0.0f;
  size_t bytes = kBytes;  // of a constant size, memcpy is not a call
  asm volatile("" : "+r"(bytes));
  switch (fault) {
    case HostBufferFault::kWrittenDuringUpload:
      pinned[3] = 2.0f;
      break;
    case HostBufferFault::kWrittenByCopying:
      std::memcpy(pinned, pageable, bytes);
      break;
    case HostBufferFault::kFreedDuringUpload:
      CHECK_CUDA(cudaFreeHost(pinned));
      pinned = nullptr;
      break;
    case HostBufferFault::kPageable:
      pageable[3] = 2.0f;
      break;
    default:
      break;
  }
  CHECK_CUDA(cudaStreamSynchronize(stream));
  if (pinned != nullptr) {
    if (fault == HostBufferFault::kKernelWrites)
      CHECK_CUDA(BRAID_LAUNCH(write_kernel, 1, kCount, 0, stream, pinned));
    else
      CHECK_CUDA(cudaMemcpyAsync(pinned, memory, kBytes, cudaMemcpyDeviceToHost, stream));
    CHECK_CUDA(cudaEventRecord(event, stream));
    switch (fault) {
      case HostBufferFault::kReadDuringDownload:
      case HostBufferFault::kKernelWrites:
        sum = pinned[3];
        break;
      case HostBufferFault::kReadAfterAnotherStream:
        CHECK_CUDA(cudaStreamSynchronize(other));
        sum = pinned[3];
        break;
      case HostBufferFault::kPolled:
        (void)__atomic_load_n(reinterpret_cast<int*>(pinned), __ATOMIC_RELAXED);
        break;
      case HostBufferFault::kReadAfterQuery:
        while (cudaStreamQuery(stream) == cudaErrorNotReady) {
        }
        sum = pinned[3];
        break;
      case HostBufferFault::kReadAfterEvent:
        CHECK_CUDA(cudaEventSynchronize(event));
        sum = pinned[3];
        break;
      default:
        break;
    }
    CHECK_CUDA(cudaStreamSynchronize(stream));
    sum += pinned[5];
    CHECK_CUDA(cudaFreeHost(pinned));
  }
  asm volatile("" : : "m"(sum));
  CHECK_CUDA(cudaFree(memory));
  CHECK_CUDA(cudaEventDestroy(event));
  for (const cudaStream_t each : {stream, other}) CHECK_CUDA(cudaStreamDestroy(each));
  return nullptr;
}
