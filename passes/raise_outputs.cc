#include "passes/raise_outputs.h"

#include <algorithm>
#include <vector>

#include "ir/dependencies.h"
#include "passes/fusion_graph.h"

namespace braid::passes {
namespace {

using namespace ir;

bool writes_only_outputs(const Schedule& schedule, const ScheduleNode& node) {
  const Graph& graph = schedule.graph;
  if (!is_loops(schedule, node)) return false;
  const std::vector<OpId> ops = ops_of(node);
  return std::all_of(ops.begin(), ops.end(), [&](OpId op) {
    const StorageKind kind = graph[root_storage(graph, graph[op].outputs[0])].kind;
    return kind == StorageKind::output || kind == StorageKind::input;
  });
}

}  // namespace

bool RaiseOutputs::run(Schedule& schedule) {
  const int n = static_cast<int>(schedule.nodes.size());
  const Dependencies deps = find_dependencies(schedule);
  // Nodes that come right behind each node; behind[0]: in front of all.
  std::vector<std::vector<int>> behind(static_cast<std::size_t>(n) + 1);
  std::vector<bool> moves(static_cast<std::size_t>(n), false);
  bool changed = false;
  for (int k = 0; k < n; ++k) {
    if (!writes_only_outputs(schedule, schedule.nodes[static_cast<std::size_t>(k)])) continue;
    int last = -1;
    for (const Dependency& d : deps.predecessors(k)) last = std::max(last, d.node);
    // Behind one that moves itself, it stays: chains of outputs are rare, and moving one of them is no
    // gain. Without any predecessor it reads only inputs and constants, which live anyway.
    if (last < 0 || moves[static_cast<std::size_t>(last)]) continue;
    const bool in_place = std::all_of(moves.begin() + last + 1, moves.begin() + k, [](bool m) { return m; });
    if (in_place) continue;
    behind[static_cast<std::size_t>(last) + 1].push_back(k);
    moves[static_cast<std::size_t>(k)] = true;
    changed = true;
  }
  if (!changed) return false;
  std::vector<ScheduleNode> nodes;
  for (int k = 0; k < n; ++k) {
    if (!moves[static_cast<std::size_t>(k)]) nodes.push_back(schedule.nodes[static_cast<std::size_t>(k)]);
    for (int moved : behind[static_cast<std::size_t>(k) + 1]) {
      nodes.push_back(schedule.nodes[static_cast<std::size_t>(moved)]);
    }
  }
  schedule.nodes = std::move(nodes);
  schedule.plan.reset();
  return true;
}

}  // namespace braid::passes
