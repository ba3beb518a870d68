// The extern kernel `quantised_lstm` on the host. Operands: gates (f32), weights (i8 or u8) [hidden, 4
// hidden], their scales (f32) and zero points (i32), initial h and c (f32), lengths (i32). Results: y, h, c
// (f32), and the work memory of a step, codes and sums (i32). Attribute: reverse. Shapes:
// runtime/quantised_lstm.h.
#pragma once

#include "runtime/extern_kernel.h"
#include "runtime/quantised_lstm.h"

namespace braid::rt {

inline const char* quantised_lstm(const BraidExternCall* call) {
  const auto f32 = [&](int k) { return static_cast<const float*>(call->reads[k].data); };
  const auto i32 = [&](int k) { return static_cast<const int32_t*>(call->reads[k].data); };
  const auto result = [&](int k) { return static_cast<float*>(call->writes[k].data); };
  const auto work = [&](int k) { return static_cast<int32_t*>(call->writes[k].data); };
  const int64_t* const sizes = call->writes[0].sizes;
  const bool reverse = braid_find_attribute(call, "reverse", BRAID_INTEGER)->integer != 0;
  const QuantisedLstm layer{sizes[0], sizes[1],  sizes[2],  reverse,   call->reads[2].sizes[0] > 1,
                            f32(0),   f32(2),    i32(3),    f32(4),    f32(5),
                            i32(6),   result(0), result(1), result(2), work(3),
                            work(4)};
  const void* const weights = call->reads[1].data;
  if (call->reads[1].dtype == BRAID_U8)
    quantised_lstm_run(layer, static_cast<const uint8_t*>(weights));
  else
    quantised_lstm_run(layer, static_cast<const int8_t*>(weights));
  return nullptr;
}

}  // namespace braid::rt
