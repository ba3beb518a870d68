// The faults that the emulated device has found in a program. Texts name ranks, streams, kernels, ONNX
// labels, allocations and offsets, never addresses or times: the same program gives the same findings however
// its streams happened to run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace braid::emulated {

enum class FindingKind {
  kRace,               // two unordered accesses, at least one of them a write
  kUninitializedRead,  // bytes of device memory that were never written
  kIllegalAccess,      // outside an allocation, freed, or the host's
  kHostAccess,         // host code dereferenced device memory
  kDivergentBarrier,   // threads of a block or lanes of a warp at different barriers, or gone
  kCollectiveMismatch,
  kCollectiveTimeOut,
  kRegistration,  // a violated rule of communication buffers
  kInvalidUse,
  kIntegerOverflow,   // of signed integers in a kernel, where they are indices
  kUndeclaredAccess,  // bytes that the step does not declare (runtime/cuda_plan.h)
  kMemoryPlan,        // the plan contradicts itself or the step
  kStepScope,         // a violated rule of steps (step_scope.h)
  kUnchecked,         // an error that the program does not check
  kCollectiveOrder,   // ranks order two collectives differently: a deadlock, if only sometimes
  kGraph,             // a violated rule of capture or of graphs, e.g. a launch of one that no longer exists
  kKernelFault,       // a trap, a division by zero, a stack that overflows
  kKernelTimeOut,     // a kernel that does not end
  kAsyncCopy,         // a copy in flight whose source or target is touched, or that is never waited for
  kLeak,              // resources that a program has not released at its end
};

const char* name_of(FindingKind kind);

struct Finding {
  FindingKind kind;
  std::string text;
};

// All findings so far, sorted by kind and text, without duplicates. Complete once all streams are
// synchronised.
std::vector<Finding> findings();
// The same, and forgets them. A process that ends with findings not taken exits with kExitCode.
std::vector<Finding> take_findings();
constexpr int kExitCode = 86;

// Like cudaDeviceReset on all devices, but keeps memory: streams end, failed devices work again, findings and
// the history of accesses are forgotten. For tests after a failed one; nothing may be running.
void reset_devices();

}  // namespace braid::emulated

// For programs that load the library by name. Writes at most `size` bytes of the findings' texts, one line
// each, zero-terminated; returns the number of findings. `take` forgets them.
extern "C" int braid_emulated_findings(char* text, unsigned long size, int take);
