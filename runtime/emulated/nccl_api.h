// The NCCL API of the emulated device: types and functions under NCCL's own names.
#pragma once

#include <climits>
#include <cstddef>

#include "runtime/emulated/cuda_api.h"

#define BRAID_EMULATED_API extern "C"
#include "runtime/emulated/nccl_declarations.inc"
#undef BRAID_EMULATED_API
