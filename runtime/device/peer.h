// Access to peers' memory from within a kernel: pointers into a symmetric window, and flags with which
// kernels of different ranks wait for each other. The window is registered with ncclCommWindowRegister(...,
// NCCL_WIN_COLL_SYMMETRIC).
//
// A pointer implies no order: only stream order, events, collectives and flags ensure that a peer has written
// what is read, and that it is not overwritten before it is read.
//
// A program whose kernels read peers' memory defines BRAID_PEER_ACCESS before including cuda_program.h, and
// is given the peers' pointers (peer_group.h). The pointers come from NCCL's device API (NCCL 2.28), which
// costs seconds of compile time. Therefore one kernel asks for them, and is built once
// (runtime/cuda/peer_segments.cu). A source that defines BRAID_PEER_WINDOWS may ask for them itself. Peers
// are the ranks reachable by load and store (NCCL's LSA team), which on one node is the whole communicator.
#pragma once

#if defined(BRAID_EMULATED_DEVICE) || defined(BRAID_PEER_WINDOWS)

#ifndef BRAID_EMULATED_DEVICE
#if NCCL_VERSION_CODE < 22800
#error "BRAID_PEER_WINDOWS needs NCCL 2.28 or later (ncclGetLsaPointer)"
#endif
#include <nccl_device.h>
#endif

namespace braid::rt::device {

template <class T>
__device__ T* peer_pointer(ncclWindow_t window, size_t offset_bytes, int peer) {
#ifdef BRAID_EMULATED_DEVICE
  return static_cast<T*>(emulated::peer_pointer(window, offset_bytes, peer));
#else
  return static_cast<T*>(ncclGetLsaPointer(window, offset_bytes, peer));
#endif
}

}  // namespace braid::rt::device

#else

namespace braid::rt::device {
template <class T>
__device__ T* peer_pointer(ncclWindow_t, size_t, int) {
  static_assert(sizeof(T) == 0,
                "a source that uses peer_pointer defines BRAID_PEER_WINDOWS before cuda_program.h");
  return nullptr;
}
}  // namespace braid::rt::device

#endif

#if defined(BRAID_EMULATED_DEVICE) || defined(BRAID_PEER_ACCESS) || defined(BRAID_PEER_WINDOWS)
#define BRAID_HAS_PEER_ACCESS 1

namespace braid::rt::device {

// Spins until the flag is `from`, then sets it to `to`; checks now and then whether the host has given up.
__device__ inline bool change_flag(unsigned* flag, unsigned from, unsigned to, const int* abandoned) {
  for (unsigned spins = 1; atomicCAS_system(flag, from, to) != from; ++spins) {
    if (spins % 64 == 0 && *static_cast<const volatile int*>(abandoned) != 0) return false;
  }
  return true;
}
// Waits until the flag is down (0), then raises it. The thread that lowers it sees what this thread, and
// those of its block that it has met at a barrier, have written. False if `abandoned` has become 1 instead.
__device__ inline bool raise_flag(unsigned* flag, const int* abandoned) {
  __threadfence_system();
  return change_flag(flag, 0, 1, abandoned);
}
// Waits until the flag is up (1), then lowers it.
__device__ inline bool lower_flag(unsigned* flag, const int* abandoned) {
  const bool good = change_flag(flag, 1, 0, abandoned);
  __threadfence_system();
  return good;
}

}  // namespace braid::rt::device

#endif
