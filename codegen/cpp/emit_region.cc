// Operations that contain others: a body that runs once, one of two bodies, or a body that runs several times
// or while a condition holds.
#include <fmt/format.h>

#include "codegen/cpp/program_emitter.h"

namespace braid::codegen::cpp {

using namespace ir;

// Emits the operations of a region, and copies of what it yields into the memory of the results.
void ProgramEmitter::emit_body(OpId id, const Region& region) {
  const std::string name = s_.graph[id].name;
  const std::vector<BufferId> outputs = s_.graph[id].outputs;  // a copy: new operations move the table
  for (OpId inner : region.ops) emit_op(inner);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const bool there = address(region.yields[k]) == address(outputs[k]) &&
                       strides_of(s_.graph, region.yields[k]) == strides_of(s_.graph, outputs[k]);
    if (there) continue;
    emit_copy(region.yields[k], outputs[k], "result of " + name);
  }
}

void ProgramEmitter::emit(OpId id, const RegionKernel& given) {
  const RegionKernel kernel = given;  // new operations move the table
  if (kernel.kind == RegionKind::call) return emit_body(id, kernel.regions[0]);
  note({id}, std::string(to_string(kernel.kind)));
  const auto nested = [&](const std::string& head, const Region& region) {
    step_.push_back(head);
    const std::size_t first = step_.size();
    ++region_depth_;
    emit_body(id, region);
    --region_depth_;
    for (std::size_t k = first; k < step_.size(); ++k) {
      if (!step_[k].empty()) step_[k].insert(0, "  ");
    }
  };
  if (kernel.kind == RegionKind::repeat) {
    nested(fmt::format("for (int64_t trip{0} = 0; trip{0} < {1}; ++trip{0}) {{", region_depth_,
                       size(kernel.trips)),
           kernel.regions[0]);
  } else if (kernel.kind == RegionKind::while_true) {
    nested(fmt::format("while (*{}) {{", address(kernel.operands[0])), kernel.regions[0]);
  } else {
    nested(fmt::format("if (*{}) {{", address(kernel.operands[0])), kernel.regions[0]);
    nested("} else {", kernel.regions[1]);
  }
  step_.emplace_back("}");
}

}  // namespace braid::codegen::cpp
