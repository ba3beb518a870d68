#include "runtime/cuda/peer_segments.h"
#include "runtime/cuda_program.h"

#if !defined(BRAID_EMULATED_DEVICE) && NCCL_VERSION_CODE >= 22800
#include <nccl_device.h>
#endif

namespace braid::rt::cuda {
namespace {

__device__ void* segment_of(ncclWindow_t window, int peer) {
#ifdef BRAID_EMULATED_DEVICE
  return emulated::peer_pointer(window, 0, peer);
#elif NCCL_VERSION_CODE >= 22800
  return ncclGetLsaPointer(window, 0, peer);
#else
  (void)window, (void)peer;
  return nullptr;
#endif
}

// One thread per rank.
__global__ void peer_segments_kernel(ncclWindow_t window, int ranks, char** out) {
  const int peer = static_cast<int>(threadIdx.x);
  if (peer < ranks) out[peer] = static_cast<char*>(segment_of(window, peer));
}

}  // namespace

cudaError_t write_peer_segments(ncclWindow_t window, int ranks, char** out, cudaStream_t stream) {
  return BRAID_LAUNCH(peer_segments_kernel, 1, (ranks + 31) / 32 * 32, 0, stream, window, ranks, out);
}

}  // namespace braid::rt::cuda
