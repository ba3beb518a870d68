// Gives a CUDA program's rank its control channel as the program's host code takes it.
#pragma once

#include "runtime/comm/control_channel.h"
#include "runtime/cuda_host.h"

namespace braid::cli {

// The channel must outlive the result.
BraidCudaHostPeers control_peers(rt::ControlChannel& channel, int local_rank);

}  // namespace braid::cli
