#include "codegen/inline_calls.h"

#include <algorithm>
#include <utility>

#include "ir/copy_loop.h"

namespace braid::codegen {
namespace {

bool is_call(const ir::Operation& op) {
  const auto* region = op.as<ir::RegionKernel>();
  return region != nullptr && region->kind == ir::RegionKind::call;
}

ir::OpId add_copy(ir::Graph& graph, ir::BufferId from, ir::BufferId to, const ir::Operation& call) {
  ir::Operation copy = copy_loop(graph, from, to);
  copy.name = call.name + ".result";
  copy.outputs = {to};
  copy.origins = call.origins;
  return graph.add_op(std::move(copy));
}

void flatten(ir::Graph& graph, ir::OpId id, std::vector<ir::OpId>& out) {
  if (!is_call(graph[id])) {
    out.push_back(id);
    return;
  }
  const ir::Operation call = graph[id];  // adding operations moves the table
  const ir::Region& region = call.as<ir::RegionKernel>()->regions[0];
  for (ir::OpId inner : region.ops) flatten(graph, inner, out);
  for (std::size_t k = 0; k < call.outputs.size(); ++k)
    out.push_back(add_copy(graph, region.yields[k], call.outputs[k], call));
}

std::vector<ir::ScheduleNode> flatten(ir::Graph& graph, const std::vector<ir::ScheduleNode>& nodes) {
  std::vector<ir::ScheduleNode> out;
  for (const ir::ScheduleNode& node : nodes) {
    if (node.kind == ir::ScheduleNode::Kind::single) {
      std::vector<ir::OpId> ops;
      flatten(graph, node.op, ops);
      for (ir::OpId op : ops) out.push_back(ir::ScheduleNode::single(op));
    } else {
      out.push_back(node);
      if (node.kind == ir::ScheduleNode::Kind::grouped) out.back().members = flatten(graph, node.members);
    }
  }
  return out;
}

}  // namespace

bool has_calls(const ir::Schedule& schedule) {
  return std::any_of(schedule.graph.ops.begin(), schedule.graph.ops.end(), is_call);
}

ir::Schedule inline_calls(const ir::Schedule& schedule) {
  ir::Schedule out = schedule;
  out.nodes = flatten(out.graph, schedule.nodes);
  return out;
}

}  // namespace braid::codegen
