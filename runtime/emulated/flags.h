// Atomic accesses of kernels to device memory, by which threads of different blocks and ranks wait for each
// other.
//
// Order follows CUDA's memory model. A thread's accesses before a release precede another thread's accesses
// after the acquire that has read the released value, or a value that later atomic updates have made of it. A
// release is an atomic write of that order, or a fence before a relaxed one; an acquire is an atomic read of
// that order, or a relaxed one before a fence. Both must have a scope that includes the other thread:
// __threadfence and atomicAdd order nothing between two ranks, __threadfence_system and atomicAdd_system do.
// Relaxed atomics alone order nothing, which an x86 processor would hide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "runtime/emulated/block.h"
#include "runtime/emulated/kernel.h"

namespace braid::emulated {

// An atomic access of the running thread. It lives while the memory is changed, which other ranks may do at
// the same time.
class AtomicAccess {
 public:
  // `order`: as of __atomic_load_n.
  AtomicAccess(BlockRunner& runner, uintptr_t address, int order);
  // Call one of these after the access, with the value before it and, if it has written, the value after it.
  void did_read(uint64_t before);
  void did_write(uint64_t before, uint64_t after, bool read);

 private:
  std::unique_lock<std::mutex> lock_;
  BlockRunner& runner_;
  uintptr_t address_;
  bool acquires_, releases_;
};

// The effect of an atomic access.
struct AtomicEffect {
  bool read, wrote;
  uint64_t before, after;  // `before` if it has read
};
// Lets `access` touch the memory at `address`, which may be anywhere, and return its AtomicEffect.
template <class Function>
void atomic_access(const char* what, uintptr_t address, int order, unsigned patience,
                   const Function& access) {
  BlockRunner* runner = BlockRunner::current();
  if (runner == nullptr || !DeviceMemory::contains(address)) {
    access();
    return;
  }
  AtomicEffect effect;
  {
    AtomicAccess atomic(*runner, address, order);
    effect = access();
    if (effect.wrote)
      atomic.did_write(effect.before, effect.after, effect.read);
    else
      atomic.did_read(effect.before);
  }
  if (!effect.wrote) runner->spin(what, address, effect.before, patience);
}

// The number of atomic writes so far.
uint64_t flag_changes();
// Waits until there are more changes than `seen`, or for a moment.
void await_flag_change(uint64_t seen);

}  // namespace braid::emulated
