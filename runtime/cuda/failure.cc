#include "runtime/cuda/failure.h"

namespace braid::rt::cuda {

BraidStatus status_of(cudaError_t e) {
  switch (e) {
    case cudaSuccess:
      return BRAID_OK;
    case cudaErrorMemoryAllocation:
      return BRAID_OUT_OF_MEMORY;
    case cudaErrorLaunchTimeout:
      return BRAID_COMM_ERROR;
    default:
      return BRAID_LIBRARY_ERROR;
  }
}

bool Reporter::ok(cudaError_t e, const char* call) {
  return e == cudaSuccess || fail(status_of(e), std::string(call) + ": " + cudaGetErrorString(e));
}

bool Reporter::ok(ncclResult_t e, const char* call) {
  return e == ncclSuccess || fail(BRAID_COMM_ERROR, std::string(call) + ": " + ncclGetErrorString(e));
}

bool Reporter::fail(BraidStatus status, const std::string& message) {
  failure_.status = status;
  failure_.message =
      failure_.node == nullptr ? message : "node '" + std::string(failure_.node) + "': " + message;
  return false;
}

bool Reporter::no_memory(const BraidCudaProgram& table, const char* what, uint64_t bytes) {
  size_t free = 0, total = 0;
  (void)cudaGetLastError();
  BRAID_TRY(cudaMemGetInfo(&free, &total));
  const auto mib = [](uint64_t n) { return std::to_string((n + (1 << 20) - 1) >> 20) + " MiB"; };
  return fail(BRAID_OUT_OF_MEMORY, "no device memory for " + mib(bytes) + " of " + what + ": " + mib(free) +
                                       " of " + mib(total) + " are free; the program needs " +
                                       mib(table.arena_bytes) + " for activations, " + mib(table.comm_bytes) +
                                       " for communication, " +
                                       mib(table.weights_bytes + table.rank_weights_bytes) + " for weights");
}

}  // namespace braid::rt::cuda
