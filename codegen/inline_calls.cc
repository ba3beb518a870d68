#include "codegen/inline_calls.h"

#include <algorithm>

namespace braid::codegen {
namespace {

using ir::Expr;

bool is_call(const ir::Operation& op) {
  const auto* region = op.as<ir::RegionKernel>();
  return region != nullptr && region->kind == ir::RegionKind::call;
}

Expr element(const ir::Graph& graph, ir::BufferId buffer) {
  const std::vector<Expr> strides = ir::strides_of(graph, buffer);
  Expr at = 0;
  for (std::size_t d = 0; d < strides.size(); ++d) at = at + graph.pool->index(d) * strides[d];
  return at;
}

ir::OpId add_copy(ir::Graph& graph, ir::BufferId from, ir::BufferId to, const ir::Operation& call) {
  ir::Loops loops;
  loops.sizes = graph[to].sizes;
  ir::BodyBuilder body(*graph.pool);
  loops.body = body.finish(body.load(from, graph[from].dtype, element(graph, from)));
  loops.store_index = element(graph, to);
  return graph.add_op({call.name + ".result", std::move(loops), {to}, call.origins, std::nullopt});
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
