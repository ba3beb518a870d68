// Entry points of step_faults.cu: a step on a caller's stream, most of them wrong in one way.
#pragma once

#include "tests/emulated/faults.h"

enum class StepFault {
  kNone,
  kNoFork,      // the step's first work on its second stream does not wait for the caller's
  kNoJoin,      // the caller's stream does not wait for it at the end
  kLateLaunch,  // it does, but more follows
  kGroupLeftOpen,
  kMalloc,
  kFree,
  kHostAlloc,
  kNcclMemAlloc,
  kRegister,
  kStreamSynchronize,
  kDeviceSynchronize,
  kEventSynchronize,
  kPageableCopy,
  kBlockingCopy,
  kCreateStream,
  kCreateEvent,
  kSplit,
  kInstantiate,            // a graph
  kUncheckedLaunch,        // that succeeds
  kUncheckedFailedLaunch,  // that fails
  kUncheckedCopy,
  kFailedStep,  // a launch fails and the step says so: no finding
};
// Null, or what a call returned.
const char* run_step(const FaultRun& run, StepFault fault);
// Runs a kernel that faults, and then a call of each kind. Returns the first call whose result was not the
// sticky error.
const char* calls_after_a_fault();
