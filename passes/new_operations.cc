#include "passes/new_operations.h"

#include <utility>

namespace braid::passes {

void NewOperations::place(ir::Schedule& schedule) const {
  std::vector<ir::ScheduleNode> nodes;
  const auto add = [&](const std::map<ir::OpId, std::vector<ir::OpId>>& added, ir::OpId op) {
    const auto found = added.find(op);
    if (found == added.end()) return;
    for (const ir::OpId id : found->second) nodes.push_back(ir::ScheduleNode::single(id));
  };
  for (ir::ScheduleNode& node : schedule.nodes) {
    const bool single = node.kind == ir::ScheduleNode::Kind::single;
    const ir::OpId op = node.op;
    if (single) add(before_, op);
    nodes.push_back(std::move(node));
    if (single) add(after_, op);
  }
  schedule.nodes = std::move(nodes);
}

}  // namespace braid::passes
