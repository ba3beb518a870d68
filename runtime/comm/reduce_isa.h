// One reduce() per instruction set; reduce.cc picks one when the program starts.
#pragma once

#include <span>

#include "runtime/comm/reduce.h"

namespace braid::rt {

#define BRAID_DECLARE_REDUCE(isa)                                                 \
  namespace isa {                                                                 \
  void reduce(DType dtype, ReduceOp op, std::span<const void* const> sources,     \
              std::span<void* const> destinations, size_t count, bool streaming); \
  }
BRAID_DECLARE_REDUCE(baseline)
#ifdef __x86_64__
BRAID_DECLARE_REDUCE(avx2)
BRAID_DECLARE_REDUCE(avx512)
#endif
#undef BRAID_DECLARE_REDUCE

}  // namespace braid::rt
