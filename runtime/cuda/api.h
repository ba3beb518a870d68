// The CUDA runtime API and NCCL for the runtime's own sources, which the host compiler builds: once, not with
// each program. Standard headers are included before it: on the emulated device CUDA's qualifiers are macros.
#pragma once

#ifdef BRAID_EMULATED_DEVICE
#include "runtime/emulated/cuda_api.h"
#include "runtime/emulated/kernel.h"
#include "runtime/emulated/nccl_api.h"
#else
#include <cuda_runtime_api.h>
#include <nccl.h>
#endif
