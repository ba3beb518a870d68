// Attention kernels with 512-bit vectors.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/attention_isa.h"
#include "runtime/half_gemm.h"
#include "runtime/kernel_support.h"

#ifdef __x86_64__
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")

#define BRAID_ATTENTION_LANES 16
#define BRAID_ATTENTION_BF16

namespace braid::rt::avx512 {
#include "runtime/attention_kernels.inc"
}  // namespace braid::rt::avx512
#endif
