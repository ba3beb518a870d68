// An instance's latest error, and how the parts of the instance report one.
#pragma once

#include <string>

#include "runtime/cuda/api.h"
#include "runtime/cuda/try.h"
#include "runtime/cuda_abi.h"

namespace braid::rt::cuda {

struct Failure {
  BraidStatus status = BRAID_OK;
  std::string message;
  const char* node = nullptr;  // to which the present calls belong; null: to none
};

// A launch that the driver ends because it takes too long counts as a peer's failure does: its time is over.
BraidStatus status_of(cudaError_t e);

// A part of an instance, whose functions return false when they fail.
class Reporter {
 protected:
  explicit Reporter(Failure& failure) : failure_(failure) {}

  bool ok(cudaError_t e, const char* call);
  bool ok(ncclResult_t e, const char* call);
  bool ok(bool good, const char*) const { return good; }
  bool fail(BraidStatus status, const std::string& message);
  bool no_memory(const BraidCudaProgram& table, const char* what, uint64_t bytes);

  Failure& failure_;
};

}  // namespace braid::rt::cuda
