// Gives a CUDA program's rank its control channel as the program's host code takes it.
#pragma once

#include "runtime/comm/control_channel.h"
#include "runtime/cuda_host.h"

namespace braid::rt {

// The channel must outlive the result.
BraidCudaHostPeers control_peers(ControlChannel& channel, int local_rank);

}  // namespace braid::rt
