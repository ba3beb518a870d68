// The result of BRAID_LAUNCH on the emulated device: an error that the caller must check. An unchecked launch
// is a finding even if the launch succeeds, so that it is found in every run.
#pragma once

#include "runtime/emulated/cuda_api.h"

namespace braid::emulated {

void report_unchecked_launch(const char* kernel);

class LaunchResult {
 public:
  LaunchResult(const char* kernel, cudaError_t error) : kernel_(kernel), error_(error) {}
  LaunchResult(const LaunchResult&) = delete;
  LaunchResult& operator=(const LaunchResult&) = delete;
  ~LaunchResult() {
    if (!seen_) report_unchecked_launch(kernel_);
  }
  operator cudaError_t() const {
    seen_ = true;
    return error_;
  }

 private:
  const char* const kernel_;
  const cudaError_t error_;
  mutable bool seen_ = false;
};

}  // namespace braid::emulated
