// For the hand-written programs: return the text of a call's error.
#pragma once

#include <chrono>
#include <thread>

#define CHECK_CUDA(call)                                        \
  do {                                                          \
    const cudaError_t error = (call);                           \
    if (error != cudaSuccess) return cudaGetErrorString(error); \
  } while (0)
#define CHECK_NCCL(call)                                        \
  do {                                                          \
    const ncclResult_t error = (call);                          \
    if (error != ncclSuccess) return ncclGetErrorString(error); \
  } while (0)

// Waits for the stream as a watchdog does: null, or why it gave the communicator up.
inline const char* finish_or_abort(cudaStream_t stream, ncclComm_t comm, int deadline_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(deadline_ms);
  for (;;) {
    const cudaError_t done = cudaStreamQuery(stream);
    ncclResult_t asynchronous = ncclSuccess;
    CHECK_NCCL(ncclCommGetAsyncError(comm, &asynchronous));
    if (asynchronous != ncclSuccess && asynchronous != ncclInProgress) return ncclGetLastError(comm);
    if (done != cudaErrorNotReady) return done == cudaSuccess ? nullptr : cudaGetErrorString(done);
    if (std::chrono::steady_clock::now() > deadline) {
      CHECK_NCCL(ncclCommAbort(comm));
      CHECK_CUDA(cudaStreamSynchronize(stream));
      return "aborted";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}
