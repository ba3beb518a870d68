// The extern kernel `non_zero` on the host: the positions of the true elements of a tensor, in row-major
// order. Operand: flags (bool), of any sizes; result: positions (int64) [rank, found], a row for each
// dimension.
#pragma once

#include "runtime/extern_kernel.h"

namespace braid::rt {

inline const char* non_zero(const BraidExternCall* call) {
  const BraidTensorView &flags = call->reads[0], &out = call->writes[0];
  const auto* flag = static_cast<const uint8_t*>(flags.data);
  auto* positions = static_cast<int64_t*>(out.data);
  const int32_t rank = flags.rank;
  const int64_t found = out.sizes[1], row = flags.sizes[rank - 1];
  int64_t rows = 1, at[BRAID_EXTERN_MAX_RANK] = {};
  for (int32_t d = 0; d + 1 < rank; ++d) rows *= flags.sizes[d];
  int64_t k = 0;
  for (int64_t r = 0; r < rows; ++r, flag += row) {
    for (int64_t i = 0; i < row; ++i) {
      if (flag[i] == 0) continue;
      if (k == found) return "found more elements than were counted";
      for (int32_t d = 0; d + 1 < rank; ++d) positions[d * found + k] = at[d];
      positions[(rank - 1) * found + k] = i;
      ++k;
    }
    for (int32_t d = rank - 2; d >= 0 && ++at[d] == flags.sizes[d]; --d) at[d] = 0;
  }
  return k == found ? nullptr : "found fewer elements than were counted";
}

}  // namespace braid::rt
