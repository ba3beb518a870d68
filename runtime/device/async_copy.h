// Copies from global to shared memory that go on while the thread does other work: cp.async of PTX, for
// sm_80 and later.
//
//   cp_async<16>(tile + i, x + i);           // or cp_async_zfill<16>(tile + i, x + i, bytes that there are)
//   cp_async_commit_group();
//   ... other work ...
//   cp_async_wait_group<0>();                // the calling thread's copies are done
//   __syncthreads();                         // and those of the others
//
// A copy moves 4, 8 or 16 bytes, and both addresses are multiples of that. The `_zfill` form reads the first
// `valid` bytes, from 0 to all, and fills the rest of the target with zeros; with 0 the source is not read,
// and its address need only be aligned. Copies of 16 bytes bypass L1.
//
// A group holds the thread's copies since its last commit, and may hold none. wait_group<n> waits for all
// but the thread's latest n groups, and not for copies in no group; wait_all waits for all copies. Until the
// wait no thread may touch the target or change the source. After it the thread itself may; other threads
// may after a barrier that follows the wait. A thread waits for all of its copies before it ends. (PTX ISA,
// "Data Movement and Conversion Instructions: Non-bulk copy".)
#pragma once

#include <cstdint>

#include "runtime/device/shared_memory.h"

namespace braid::rt::device {

#ifdef BRAID_EMULATED_DEVICE

template <int bytes>
void cp_async(void* target, const void* source) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  emulated::copy_async(target, source, bytes, bytes);
}
template <int bytes>
void cp_async_zfill(void* target, const void* source, int valid) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  emulated::copy_async(target, source, bytes, static_cast<size_t>(valid));
}
inline void cp_async_commit_group() { emulated::commit_copies(); }
template <int pending>
void cp_async_wait_group() {
  emulated::wait_for_copies(pending);
}
inline void cp_async_wait_all() {
  emulated::commit_copies();
  emulated::wait_for_copies(0);
}

#else

template <int bytes>
__device__ void cp_async_zfill(void* target, const void* source, int valid) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  const uint32_t to = shared_address(target);
  const size_t from = __cvta_generic_to_global(source);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes), "r"(valid)
                 : "memory");
}
template <int bytes>
__device__ void cp_async(void* target, const void* source) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16);
  const uint32_t to = shared_address(target);
  const size_t from = __cvta_generic_to_global(source);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(bytes) : "memory");
}
__device__ inline void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending>
__device__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
__device__ inline void cp_async_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#endif

}  // namespace braid::rt::device
