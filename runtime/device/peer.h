// A peer's memory in a symmetric window, addressed from a kernel. The window is registered with
// ncclCommWindowRegister(..., NCCL_WIN_COLL_SYMMETRIC).
//
// Nothing here orders accesses between ranks: that a peer has written what is read, and that nobody
// overwrites it before it has been read, follows only from stream order, events and collectives.
//
// On a GPU the pointer comes from NCCL's device API (NCCL 2.28), which costs seconds of compile time: a
// program that needs it defines BRAID_PEER_ACCESS before including cuda_program.h. The team is the ranks
// reachable by load and store (LSA), which on one node is the whole communicator.
#pragma once

#if defined(BRAID_EMULATED_DEVICE)
namespace braid::rt::device {
template <class T>
__device__ T* peer_pointer(ncclWindow_t window, size_t offset_bytes, int peer) {
  return static_cast<T*>(emulated::peer_pointer(window, offset_bytes, peer));
}
}  // namespace braid::rt::device
#elif defined(BRAID_PEER_ACCESS)
#if NCCL_VERSION_CODE < 22800
#error "BRAID_PEER_ACCESS needs NCCL 2.28 or later (ncclGetLsaPointer)"
#endif
#include <nccl_device.h>
namespace braid::rt::device {
template <class T>
__device__ T* peer_pointer(ncclWindow_t window, size_t offset_bytes, int peer) {
  return static_cast<T*>(ncclGetLsaPointer(window, offset_bytes, peer));
}
}  // namespace braid::rt::device
#else
namespace braid::rt::device {
template <class T>
__device__ T* peer_pointer(ncclWindow_t, size_t, int) {
  static_assert(sizeof(T) == 0,
                "a program that uses peer_pointer defines BRAID_PEER_ACCESS before cuda_program.h");
  return nullptr;
}
}  // namespace braid::rt::device
#endif
