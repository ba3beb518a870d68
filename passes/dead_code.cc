#include "passes/dead_code.h"

#include <algorithm>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include "ir/dependencies.h"
#include "ir/effects.h"
#include "ir/id_vector.h"
#include "passes/compact.h"

namespace braid::passes {
namespace {

using namespace ir;

bool is_root(const Graph& graph, OpId op, const IdVector<StorageId, bool>& kept_storage) {
  const Effects e = effects(graph, op);
  if (e.barrier || !e.comm.empty()) return true;
  bool writes = false;
  for (const Access& a : e.accesses) {
    if (!a.writes()) continue;
    writes = true;
    const StorageKind kind = graph[a.region.storage].kind;
    if (kind == StorageKind::input || kind == StorageKind::output || kind == StorageKind::constant)
      return true;
    if (kept_storage[a.region.storage]) return true;
  }
  // A measure may fail, and guards may need its dimension.
  return !writes && (graph[op].as<ExternKernel>() != nullptr || graph[op].as<Measure>() != nullptr);
}

// Removes the dead members; true if nothing is left of the node.
bool prune(ScheduleNode& node, const IdVector<OpId, bool>& live_op) {
  if (node.kind == ScheduleNode::Kind::single) return !live_op[node.op];
  std::erase_if(node.members, [&](ScheduleNode& member) { return prune(member, live_op); });
  if (node.members.size() == 1 && node.kind == ScheduleNode::Kind::fused) {
    ScheduleNode only = std::move(node.members[0]);
    node = std::move(only);
    return false;
  }
  return node.members.empty();
}

// Removed groups held no collective, so no dependency on them is needed.
void forget_missing_groups(Schedule& schedule) {
  std::set<std::string> groups;
  for (const ScheduleNode& node : schedule.nodes) {
    if (node.kind == ScheduleNode::Kind::grouped) groups.insert(node.name);
  }
  for (ScheduleNode& node : schedule.nodes)
    std::erase_if(node.after, [&](const std::string& name) { return !groups.contains(name); });
}

}  // namespace

bool DeadCode::run(Schedule& schedule) {
  const Graph& graph = schedule.graph;
  IdVector<StorageId, bool> kept_storage(graph.storages.size(), false);
  for (const GraphOutput& o : graph.outputs) {
    const StorageId s = root_storage(graph, o.buffer);
    if (s.valid()) kept_storage[s] = true;
  }
  const std::vector<OpId> order = execution_order(schedule);
  const Dependencies deps = find_op_dependencies(schedule, {.channel_order = false});
  IdVector<int, bool> live(order.size(), false);
  IdVector<OpId, bool> live_op(graph.ops.size(), false);
  for (const int k : std::views::reverse(live.ids())) {
    if (!live[k]) live[k] = is_root(graph, at(order, k), kept_storage);
    if (!live[k]) continue;
    live_op[at(order, k)] = true;
    for (const Dependency& d : deps.predecessors(k)) {
      if (d.hazard == Hazard::read_after_write || d.hazard == Hazard::structure) {
        live[d.node] = true;
      }
    }
  }
  bool changed = false;
  if (std::find(live.begin(), live.end(), false) != live.end()) {
    changed = true;
    std::erase_if(schedule.nodes, [&](ScheduleNode& node) { return prune(node, live_op); });
    forget_missing_groups(schedule);
    schedule.plan.reset();  // its steps no longer fit
  }
  return compact(schedule) || changed;
}

}  // namespace braid::passes
