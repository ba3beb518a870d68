// reduce() with 512-bit vectors.
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
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,f16c,prefer-vector-width=512")
#define BRAID_REDUCE_F16C
#define BRAID_REDUCE_STREAM_LINE(to, from) \
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from))

namespace braid::rt::avx512 {
#include "runtime/comm/reduce_kernels.inc"
}  // namespace braid::rt::avx512
#endif
