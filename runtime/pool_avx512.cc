// Pools, with 512-bit vectors.
#include <algorithm>
#include <cstring>

#include "runtime/pool.h"

#ifdef __x86_64__
// After the includes: inline functions, which other files have too, must not be built for this target.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")

namespace braid::rt::avx512 {

#include "runtime/pool_kernels.inc"

}  // namespace braid::rt::avx512
#endif
