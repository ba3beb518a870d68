// The CUDA runtime and NCCL, of the toolkit or of the emulated device, and the errors of their calls as
// exceptions.
#pragma once

#ifdef BRAID_EMULATED_DEVICE
#include "runtime/emulated/cuda_api.h"
#include "runtime/emulated/nccl_api.h"
#else
#include <cuda_runtime.h>
#include <nccl.h>
#endif

#include <stdexcept>
#include <string>

namespace braid::gpu_bundle {

// Thrown when this machine cannot run a case, as opposed to running it wrongly.
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(cudaError_t e, const char* call) {
  if (e != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(e));
}
inline void check(ncclResult_t e, const char* call) {
  if (e != ncclSuccess) throw std::runtime_error(std::string(call) + ": " + ncclGetErrorString(e));
}
#define GPU_CHECK(call) ::braid::gpu_bundle::check((call), #call)

}  // namespace braid::gpu_bundle
