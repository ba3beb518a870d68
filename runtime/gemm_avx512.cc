// Matrix kernels with 512-bit vectors.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/gemm_isa.h"
#include "runtime/kernel_support.h"

#ifdef __x86_64__
#include <immintrin.h>
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")

#define BRAID_GEMM_LANES 16

namespace braid::rt::avx512 {
#include "runtime/gemm_kernels.inc"
}  // namespace braid::rt::avx512
#endif
