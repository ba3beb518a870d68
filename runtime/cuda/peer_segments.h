// Where a device reaches the communication segments of its peers.
#pragma once

#include "runtime/cuda/api.h"
#include "runtime/device/peer_group.h"

namespace braid::rt::cuda {

// Writes the pointers of the first `ranks` ranks of the window's communicator to `out`, on the device. All of
// them must be reachable by load and store.
cudaError_t write_peer_segments(ncclWindow_t window, int ranks, char** out, cudaStream_t stream);

}  // namespace braid::rt::cuda
