// Entry points of memory_order.cu: a kernel hands data over to another one, or a block to another, by a flag.
#pragma once

enum class HandOver {
  kReleaseAcquire,  // orders of the flag's own accesses
  kFences,          // relaxed accesses between fences
  kRelaxedStore,    // the rest are wrong in one way
  kRelaxedLoad,
  kNoFenceBeforeRaise,
  kNoFenceAfterWait,
  kFencesOfTheDevice,   // right on one device
  kAtomicsOfTheDevice,  // right on one device
  kNoBarrierBeforeRaise,
  kNoBarrierAfterWait,
  kWrittenAfterRaise,
};
// From one stream to another, of the same device or of two. Null, or what a call returned.
const char* hand_over(HandOver how, bool two_devices, float* result);

enum class LastBlock { kRight, kNoFenceBefore, kNoFenceAfter, kNoFences };
// The last block to finish adds up what all have written.
const char* sum_in_last_block(LastBlock how, float* result);

// Two streams take turns by the same flag, several times.
const char* take_turns(bool with_fences, float* result);
