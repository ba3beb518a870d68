// For the hand-written programs: return the text of a call's error.
#pragma once

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
