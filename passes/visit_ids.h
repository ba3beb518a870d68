// Every id of another table that an operation holds: for passes that hand out ids anew or put one buffer in
// the place of another.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace braid::passes {

// buffer(BufferId&) for what it defines, reads, writes and yields; other(OpId&) for the starts of waits and
// releases and the operations of regions.
template <class OnBuffer, class OnOp>
void visit_ids(ir::Operation& op, const OnBuffer& buffer, const OnOp& other) {
  const auto body = [&](ir::LoopBody& b) {
    for (ir::Instr& instr : b.instrs) {
      if (instr.code == ir::OpCode::load) buffer(instr.buffer);
    }
  };
  const auto refs = [&](std::vector<ir::TensorRef>& all) {
    for (ir::TensorRef& r : all) buffer(r.buffer);
  };
  for (ir::BufferId& b : op.outputs) buffer(b);
  if (auto* loops = op.as<ir::Loops>()) body(loops->body);
  if (auto* gemm = op.as<ir::Gemm>()) {
    for (ir::TensorRef* r : {&gemm->a, &gemm->b, &gemm->out}) buffer(r->buffer);
    if (gemm->epilogue) body(*gemm->epilogue);
  }
  if (auto* k = op.as<ir::ExternKernel>()) refs(k->reads), refs(k->writes);
  if (auto* k = op.as<ir::CollectiveKernel>()) refs(k->inputs), refs(k->outputs);
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
