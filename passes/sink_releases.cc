#include "passes/sink_releases.h"

#include <algorithm>
#include <optional>

#include "ir/dependencies.h"
#include "ir/effects.h"
#include "passes/plan_memory.h"

namespace braid::passes {
namespace {

using namespace ir;

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
  const int n = static_cast<int>(schedule.nodes.size());
  // next_start[group]: the nearest start at or behind the node that is looked at, going backwards.
  std::vector<int> next_start(graph.groups.size(), n);
  // The same for releases, where they go: those of one communicator do not overtake each other.
  std::vector<int> next_release(graph.groups.size(), n);
  std::vector<int> before(static_cast<std::size_t>(n),
                          -1);  // node -> in front of which it goes; -1: it stays
  bool moved = false;
  for (int k = n; k-- > 0;) {
    const ScheduleNode& node = schedule.nodes[static_cast<std::size_t>(k)];
    if (node.kind == ScheduleNode::Kind::single && graph[node.op].as<ReleaseKernel>() != nullptr) {
      const auto group = static_cast<std::size_t>(effects(graph, node.op).comm[0].group.index);
      int target = std::min(next_start[group], next_release[group]);
      for (const Dependency& d : deps.successors(k)) target = std::min(target, d.node);
      // Over other releases only is no move.
      int after = k + 1;
      while (after < target) {
        const ScheduleNode& other = schedule.nodes[static_cast<std::size_t>(after)];
        if (other.kind != ScheduleNode::Kind::single || graph[other.op].as<ReleaseKernel>() == nullptr) break;
        ++after;
      }
      if (after < target) {
        before[static_cast<std::size_t>(k)] = target;
        moved = true;
        next_release[group] = target;
      } else {
        next_release[group] = k;
      }
      continue;
    }
    for (OpId op : ops_of(node)) {
      for (const CommEffect& c : effects(graph, op).comm) {
        if (c.phase == CommPhase::start) next_start[static_cast<std::size_t>(c.group.index)] = k;
      }
    }
  }
  if (!moved) return false;

  std::vector<std::vector<int>> arriving(static_cast<std::size_t>(n) + 1);
  for (int k = 0; k < n; ++k) {
    if (before[static_cast<std::size_t>(k)] >= 0) {
      arriving[static_cast<std::size_t>(before[static_cast<std::size_t>(k)])].push_back(k);
    }
  }
  Schedule sunk = schedule;
  sunk.nodes.clear();
  sunk.plan.reset();
  for (int k = 0; k <= n; ++k) {
    for (int release : arriving[static_cast<std::size_t>(k)]) {
      sunk.nodes.push_back(schedule.nodes[static_cast<std::size_t>(release)]);
    }
    if (k < n && before[static_cast<std::size_t>(k)] < 0)
      sunk.nodes.push_back(schedule.nodes[static_cast<std::size_t>(k)]);
  }
  if (!may_grow_memory && planned_bytes(sunk) > planned_bytes(schedule)) return false;
  schedule.nodes = std::move(sunk.nodes);
  schedule.plan.reset();
  return true;
}

}  // namespace braid::passes
