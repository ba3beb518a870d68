// The extern kernel `block_product` on the host (runtime/block_product.h). Operands: x [m, k], weights (u8)
// [n, bytes], scales [n, blocks] and, optionally, zero points (u8) [n, blocks]; results: y [m, n], work [m,
// blocks * block]. Attributes `bits`, `block`.
#pragma once

#include "runtime/block_product.h"
#include "runtime/extern_kernel.h"

namespace braid::rt {

inline const char* block_product(const BraidExternCall* call) {
  BlockProduct p;
  p.m = call->reads[0].sizes[0];
  p.k = call->reads[0].sizes[1];
  p.n = call->writes[0].sizes[1];
  p.bits = braid_find_attribute(call, "bits", BRAID_INTEGER)->integer;
  p.block = braid_find_attribute(call, "block", BRAID_INTEGER)->integer;
  p.x = static_cast<const float*>(call->reads[0].data);
  p.weights = static_cast<const uint8_t*>(call->reads[1].data);
  p.scales = static_cast<const float*>(call->reads[2].data);
  if (call->read_count > 3) p.zeros = static_cast<const uint8_t*>(call->reads[3].data);
  p.y = static_cast<float*>(call->writes[0].data);
  p.work = static_cast<float*>(call->writes[1].data);
  run_block_product(p);
  return nullptr;
}

}  // namespace braid::rt
