#include "ir/schedule.h"

#include <algorithm>
#include <functional>

namespace braid::ir {
namespace {

void append(const ScheduleNode& node, std::vector<OpId>& out) {
  if (node.kind == ScheduleNode::Kind::single) {
    out.push_back(node.op);
    return;
  }
  for (const ScheduleNode& member : node.members) append(member, out);
}

}  // namespace

std::string_view to_string(ChannelPolicy policy) {
  constexpr std::string_view names[] = {"global", "communicator", "pair", "edge"};
  return names[static_cast<std::size_t>(policy)];
}

std::vector<OpId> ops_of(const ScheduleNode& node) {
  std::vector<OpId> out;
  append(node, out);
  return out;
}

std::vector<OpId> execution_order(const Schedule& schedule) {
  std::vector<OpId> out;
  for (const ScheduleNode& node : schedule.nodes) append(node, out);
  return out;
}

std::vector<OpId> nested_order(const Schedule& schedule) {
  std::vector<OpId> out;
  const std::function<void(OpId)> visit = [&](OpId id) {
    out.push_back(id);
    if (const auto* region = schedule.graph[id].as<RegionKernel>()) {
      for (const Region& r : region->regions) std::for_each(r.ops.begin(), r.ops.end(), visit);
    }
  };
  for (OpId id : execution_order(schedule)) visit(id);
  return out;
}

}  // namespace braid::ir
