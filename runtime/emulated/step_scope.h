// A step of a program, as the program's runtime announces it: calls that the host must not make meanwhile,
// and conditions that must hold at its end.
//
// Within a step the host only enqueues. Allocating, registering, waiting for the device, copies through
// pageable memory, and making communicators, streams or events stall the device or the peers, so each of them
// is a finding. The step's first work on each stream must follow all work that was enqueued before on the
// caller's stream, and the caller's stream must follow all work that the step enqueues. Both are checked
// against the events that were recorded and waited for, not against the timing. A step that reports success
// must have had no call that failed.
#pragma once

#include "runtime/emulated/cuda_api.h"
#include "runtime/owned.h"

namespace braid::emulated {

class StepRecord;

class StepScope {
 public:
  // Work enqueued on this host thread belongs to the step from now on. `caller` is the stream that the step
  // follows and precedes.
  explicit StepScope(cudaStream_t caller);
  StepScope(const StepScope&) = delete;
  StepScope& operator=(const StepScope&) = delete;
  ~StepScope();

  // The step is complete and will be reported as a success. Without this call it has failed.
  void done();

 private:
  rt::Owned<StepRecord> record_;
};

// Reports a `call` that a step must not make if this host thread is within a step.
void not_within_step(const char* call = __builtin_FUNCTION());

}  // namespace braid::emulated
