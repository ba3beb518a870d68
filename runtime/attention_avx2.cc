// Attention kernels with 256-bit vectors.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "runtime/attention_isa.h"
#include "runtime/kernel_support.h"

#ifdef __x86_64__
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx2,fma")

#define BRAID_ATTENTION_LANES 8

namespace braid::rt::avx2 {
#include "runtime/attention_kernels.inc"
}  // namespace braid::rt::avx2
#endif
