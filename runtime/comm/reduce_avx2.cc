// reduce() with 256-bit vectors.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "runtime/comm/reduce_isa.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#ifdef __x86_64__
// After the includes: inline functions of the standard library must not be built for this target.
#pragma GCC target("avx2,f16c")
#define BRAID_REDUCE_F16C
#define BRAID_REDUCE_STREAM_LINE(to, from)                                                    \
  for (int part = 0; part < 64; part += 32) {                                                 \
    _mm256_stream_si256(reinterpret_cast<__m256i*>((to) + part),                              \
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>((from) + part))); \
  }

namespace braid::rt::avx2 {
#include "runtime/comm/reduce_kernels.inc"
}  // namespace braid::rt::avx2
#endif
