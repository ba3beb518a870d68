// Matrix kernels for any processor.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/gemm_isa.h"
#include "runtime/kernel_support.h"

#define BRAID_GEMM_LANES 4

namespace braid::rt::baseline {
#include "runtime/gemm_kernels.inc"
}  // namespace braid::rt::baseline
