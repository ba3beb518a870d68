#include "passes/sink_releases.h"

#include <algorithm>
#include <optional>
#include <ranges>

#include "analysis/ids.h"
#include "ir/dependencies.h"
#include "ir/effects.h"
#include "passes/plan_memory.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace analysis;

std::int64_t planned_bytes(Schedule& schedule) {
  std::optional<MemoryPlan> kept = std::move(schedule.plan);
  schedule.plan.reset();
  PlanMemory{}.run(schedule);
  const std::int64_t bytes = schedule.plan->arena_bytes + schedule.plan->comm_bytes;
  schedule.plan = std::move(kept);
  return bytes;
}

}  // namespace

bool SinkReleases::run(Schedule& schedule) {
  const Graph& graph = schedule.graph;
  const Dependencies deps = find_dependencies(schedule);
  const IdRange<NodeId> all = nodes_of(schedule);
  const NodeId end{count_of(schedule.nodes)};
  // next_start[group]: the nearest start at or after the present node, going backwards.
  IdVector<GroupId, NodeId> next_start(graph.groups.size(), end);
  // The same for the new places of releases: those of one communicator do not overtake each other.
  IdVector<GroupId, NodeId> next_release(graph.groups.size(), end);
  IdVector<NodeId, NodeId> before(all);  // the node before which it goes; invalid: it stays
  bool moved = false;
  for (const NodeId k : std::views::reverse(all)) {
    const ScheduleNode& node = at(schedule.nodes, k);
    if (node.kind == ScheduleNode::Kind::single && graph[node.op].as<ReleaseKernel>() != nullptr) {
      const GroupId group = effects(graph, node.op).comm[0].group;
      NodeId target = std::min(next_start[group], next_release[group]);
      for (const Dependency& d : deps.successors(k.index)) target = std::min(target, NodeId{d.node});
      // Passing only other releases is no move.
      NodeId after = k + 1;
      while (after < target) {
        const ScheduleNode& other = at(schedule.nodes, after);
        if (other.kind != ScheduleNode::Kind::single || graph[other.op].as<ReleaseKernel>() == nullptr) break;
        ++after;
      }
      if (after < target) {
        before[k] = target;
        moved = true;
        next_release[group] = target;
      } else {
        next_release[group] = k;
      }
      continue;
    }
    for (OpId op : ops_of(node)) {
      for (const CommEffect& c : effects(graph, op).comm) {
        if (c.phase == CommPhase::start) next_start[c.group] = k;
      }
    }
  }
  if (!moved) return false;

  IdVector<NodeId, std::vector<NodeId>> arriving(schedule.nodes.size() + 1);
  for (const NodeId k : all) {
    if (before[k].valid()) {
      arriving[before[k]].push_back(k);
    }
  }
  Schedule sunk = schedule;
  sunk.nodes.clear();
  sunk.plan.reset();
  for (const NodeId k : arriving.ids()) {
    for (const NodeId release : arriving[k]) sunk.nodes.push_back(at(schedule.nodes, release));
    if (k < end && !before[k].valid()) sunk.nodes.push_back(at(schedule.nodes, k));
  }
  if (!may_grow_memory && planned_bytes(sunk) > planned_bytes(schedule)) return false;
  schedule.nodes = std::move(sunk.nodes);
  schedule.plan.reset();
  return true;
}

}  // namespace braid::passes
