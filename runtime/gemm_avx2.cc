// Matrix kernels with 256-bit vectors.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/gemm_isa.h"
#include "runtime/kernel_support.h"

#ifdef __x86_64__
#include <immintrin.h>
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx2,fma,f16c")

#define BRAID_GEMM_LANES 8

namespace braid::rt::avx2 {
#include "runtime/gemm_kernels.inc"
}  // namespace braid::rt::avx2
#endif
