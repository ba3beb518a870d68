// The extern kernel `last_writer` on the host: for each of m positions the last k with positions[k] equal to
// it, or -1. Operand: positions (int64, in [0, m)) [n]; result: writers (int64) [m]. Loops write every
// element once, and use the result to read scattered elements.
#pragma once

#include "runtime/extern_kernel.h"

namespace braid::rt {

inline const char* last_writer(const BraidExternCall* call) {
  const int64_t n = call->reads[0].sizes[0], m = call->writes[0].sizes[0];
  const int64_t* positions = static_cast<const int64_t*>(call->reads[0].data);
  int64_t* writers = static_cast<int64_t*>(call->writes[0].data);
  for (int64_t i = 0; i < m; ++i) writers[i] = -1;
  for (int64_t k = 0; k < n; ++k) {
    if (positions[k] >= 0 && positions[k] < m) writers[positions[k]] = k;
  }
  return nullptr;
}

}  // namespace braid::rt
