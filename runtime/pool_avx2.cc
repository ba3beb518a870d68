// Pools, with 256-bit vectors.
#include <algorithm>
#include <cstring>

#include "runtime/pool.h"

#ifdef __x86_64__
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx2,fma")

namespace braid::rt::avx2 {

#include "runtime/pool_kernels.inc"

}  // namespace braid::rt::avx2
#endif
