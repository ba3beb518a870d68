// The work that one step of a program has enqueued so far, and its faults (step_scope.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/emulated/cuda_api.h"
#include "runtime/emulated/vector_clock.h"

namespace braid::emulated {

class StepRecord {
 public:
  explicit StepRecord(cudaStream_t caller);

  // `name` was enqueued on `stream`, as its work number `number`, after what `issued` says.
  void enqueued(CUstream_st& stream, const std::string& name, uint32_t number, const VectorClock& issued);
  void failed(const char* call, const std::string& error);
  // Reports what a complete step must not leave.
  void done() const;

 private:
  struct Work {
    uint32_t number;
    std::string name;
  };
  CUstream_st* const caller_;
  uint32_t before_ = 0;                  // the caller's latest work before the step
  std::map<CUstream_st*, Work> latest_;  // of each stream that the step uses
  std::string failure_;
};

}  // namespace braid::emulated
