// CUDA, NCCL and the functions of runtime/device/ as kernels use them.
//
// The same source builds in two ways without any #ifdef:
//   nvcc  -I<braid>                                      real CUDA and NCCL
//   g++   -I<braid> -DBRAID_EMULATED_DEVICE ...          the emulated device (runtime/emulated/README.md)
//
// A generated program may use the CUDA runtime and NCCL calls declared in
// runtime/emulated/{cuda,nccl}_declarations.inc, kernels launched by BRAID_LAUNCH, shared memory declared by
// BRAID_SHARED and BRAID_DYNAMIC_SHARED, and the device functions of runtime/device/*.h.
#pragma once

#ifdef BRAID_EMULATED_DEVICE
#include "runtime/emulated/cuda_api.h"
#include "runtime/emulated/kernel.h"
#include "runtime/emulated/nccl_api.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <nccl.h>
#endif

#include "runtime/device/convert.h"
#include "runtime/device/launch.h"
#include "runtime/device/peer.h"
#include "runtime/device/peer_collectives.h"
#include "runtime/device/recurrence.h"
#include "runtime/device/reduce.h"
#include "runtime/device/shared_memory.h"
#include "runtime/device/tile.h"
