#include "passes/raise_outputs.h"

#include <algorithm>
#include <vector>

#include "analysis/ids.h"
#include "ir/dependencies.h"
#include "passes/fusion_graph.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace analysis;

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
  const IdRange<NodeId> all = nodes_of(schedule);
  const Dependencies deps = find_dependencies(schedule);
  IdVector<NodeId, std::vector<NodeId>> behind(all);  // nodes that come right after each node
  IdVector<NodeId, bool> moves(all, false);
  bool changed = false;
  for (const NodeId k : all) {
    if (!writes_only_outputs(schedule, at(schedule.nodes, k))) continue;
    NodeId last;
    for (const Dependency& d : deps.predecessors(k.index)) last = std::max(last, NodeId{d.node});
    // The node stays if its last predecessor moves itself: chains of outputs are rare, and moving one of them
    // is no gain. Without any predecessor it reads only inputs and constants, which stay alive in any case.
    if (!last.valid() || moves[last]) continue;
    const bool in_place =
        std::ranges::all_of(IdRange(last + 1, k), [&](NodeId between) { return moves[between]; });
    if (in_place) continue;
    behind[last].push_back(k);
    moves[k] = true;
    changed = true;
  }
  if (!changed) return false;
  std::vector<ScheduleNode> nodes;
  for (const NodeId k : all) {
    if (!moves[k]) nodes.push_back(at(schedule.nodes, k));
    for (const NodeId moved : behind[k]) nodes.push_back(at(schedule.nodes, moved));
  }
  schedule.nodes = std::move(nodes);
  schedule.plan.reset();
  return true;
}

}  // namespace braid::passes
