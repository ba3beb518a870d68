// The extern kernel `last_writer` on the device (runtime/host/last_writer.h says what it computes): each
// thread searches the writers from the last one for its position, so the result does not depend on timing.
#pragma once

#include "runtime/extern_kernel.h"

namespace braid::rt::cuda {

inline __global__ void last_writer_kernel(const int64_t* positions, int64_t n, int64_t* writers, int64_t m) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= m) return;
  int64_t k = n - 1;
  while (k >= 0 && positions[k] != at) --k;
  writers[at] = k;
}

inline const char* last_writer(const BraidExternCall* call) {
  const int64_t n = call->reads[0].sizes[0], m = call->writes[0].sizes[0];
  if (m == 0) return nullptr;
  constexpr int64_t kThreads = 256;
  const cudaError_t error = BRAID_LAUNCH(
      last_writer_kernel, dim3(static_cast<unsigned>((m + kThreads - 1) / kThreads)), dim3(kThreads), 0,
      static_cast<cudaStream_t>(call->stream), static_cast<const int64_t*>(call->reads[0].data), n,
      static_cast<int64_t*>(call->writes[0].data), m);
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace braid::rt::cuda
