// reduce() for any processor.
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

// SSE2 is part of every x86-64 processor.
#define BRAID_REDUCE_STREAM_LINE(to, from)                                              \
  for (int part = 0; part < 64; part += 16) {                                           \
    _mm_stream_si128(reinterpret_cast<__m128i*>((to) + part),                           \
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>((from) + part))); \
  }

namespace braid::rt::baseline {
#include "runtime/comm/reduce_kernels.inc"
}  // namespace braid::rt::baseline
