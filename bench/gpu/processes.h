// Ranks as processes that share one GPU. NCCL refuses two ranks on one device of a host; with an NCCL_HOSTID
// each they count as ranks of different hosts and speak over sockets of the loopback interface.
#pragma once

#include <functional>

#include "device_api.h"

namespace braid::gpu_bundle {

// Forks before any CUDA call, so this process must not have used the device. Throws the first error of a
// rank; all are killed if they are not done after two minutes.
void run_processes(int ranks, const std::function<void(int rank, const ncclUniqueId&)>& rank);

}  // namespace braid::gpu_bundle
