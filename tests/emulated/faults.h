// Entry points of faults.cu: small programs, most of them wrong in one way.
#pragma once

#include <cstddef>

struct FaultRun {
  int rank = 0, ranks = 1;
  const char* id = nullptr;  // 128 bytes, the same on all ranks
};

// Returns null, or the error of a call. Each rank reads its right neighbour's window directly. Correct with
// `exit_barrier`: no rank overwrites its own part before the reader has finished. `sum` gets the sum of the
// values read.
const char* read_peer_directly(const FaultRun& run, bool exit_barrier, float* sum);

enum class SingleFault {
  kNone,
  kWritePastEnd,
  kReadBeforeStart,
  kUseAfterFree,
  kReadUninitialized,
  kExitBeforeBarrier,
  kTwoBarriers,
  kLaneMissing,
  kLaneOutsideMask,
  kTooMuchSharedMemory,
  kSharedSynchronised,
};
const char* run_single(SingleFault fault);

// Host code that touches device memory; returns what it read.
float host_reads_device();
float host_copies_device();

// Two streams without any order write the even and the odd halves of 32-bit words.
const char* write_neighbouring_halves(bool same_half);
// Two streams without any order add to one counter; `plain` with loads and stores instead of atomicAdd.
const char* count_from_two_streams(bool plain, int* result);

enum class CommFault {
  kNone,
  kCountDiffers,
  kRootDiffers,
  kRankMissing,
  kWindowOfCudaMalloc,
  kWindowSizesDiffer,
  kWindowOffsetsDiffer,
  kBufferOffsetsDiffer,
  kFreeWhileRegistered,
  kSendsBeforeReceives,
  kGroupedSendsAndReceives,
  kNotDeviceMemory,
  kOverlappingBuffers,
};
const char* run_comm(const FaultRun& run, CommFault fault);
