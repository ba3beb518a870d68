#include "passes/new_operations.h"

#include <utility>

namespace braid::passes {

void NewOperations::place(ir::Schedule& schedule) const {
  std::vector<ir::ScheduleNode> nodes;
  for (ir::ScheduleNode& node : schedule.nodes) {
    if (node.kind == ir::ScheduleNode::Kind::single) {
      if (const auto found = before_.find(node.op); found != before_.end()) {
        for (const ir::OpId op : found->second) nodes.push_back(ir::ScheduleNode::single(op));
      }
    }
    nodes.push_back(std::move(node));
  }
  schedule.nodes = std::move(nodes);
}

}  // namespace braid::passes
