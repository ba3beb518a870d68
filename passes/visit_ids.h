// Visits every id of another table that an operation holds: for passes that renumber ids or replace one
// buffer by another.
#pragma once

#include "ir/kernel_parts.h"

namespace braid::passes {

// Calls buffer(BufferId&) for the buffers that the operation defines, reads, writes and yields. Calls
// other(OpId&) for the starts of waits and releases and for the operations of regions.
template <class OnBuffer, class OnOp>
void visit_ids(ir::Operation& op, const OnBuffer& buffer, const OnOp& other) {
  for (ir::BufferId& b : op.outputs) buffer(b);
  ir::for_each_operand(op.kernel, [&](ir::TensorRef& ref, bool) { buffer(ref.buffer); });
  ir::for_each_load(op.kernel, [&](ir::Instr& load) { buffer(load.buffer); });
  if (auto* k = op.as<ir::WaitKernel>()) other(k->start);
  if (auto* k = op.as<ir::ReleaseKernel>()) other(k->start);
  if (auto* k = op.as<ir::RegionKernel>()) {
    for (ir::BufferId& b : k->operands) buffer(b);
    for (ir::Region& r : k->regions) {
      for (ir::OpId& o : r.ops) other(o);
      for (ir::BufferId& b : r.yields) buffer(b);
    }
  }
}

}  // namespace braid::passes
