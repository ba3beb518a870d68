#include "passes/storage_use.h"

#include <vector>

#include "ir/effects.h"

namespace braid::passes {

using namespace ir;

StorageWriters::StorageWriters(const Schedule& schedule) : graph_(schedule.graph) {
  std::vector<StorageTouch> touches;
  for (OpId op : execution_order(schedule)) {
    storages_of(graph_, op, touches);
    std::set<StorageId> written;
    for (const StorageTouch& t : touches) {
      if (t.writes || t.inside) written.insert(t.storage);
    }
    for (StorageId s : written) ++writers_[s];
  }
}

bool StorageWriters::never_changes(BufferId buffer) const {
  const StorageId root = root_storage(graph_, buffer);
  if (!root.valid() || graph_[root].kind == StorageKind::comm) return false;
  const StorageKind kind = graph_[root].kind;
  const int most = kind == StorageKind::activation || kind == StorageKind::output ? 1 : 0;
  const auto found = writers_.find(root);
  return found == writers_.end() || found->second <= most;
}

void drop_unread(Schedule& schedule, const std::set<OpId>& operations) {
  const Graph& graph = schedule.graph;
  std::set<StorageId> read;
  for (const GraphOutput& o : graph.outputs) read.insert(root_storage(graph, o.buffer));
  std::vector<StorageTouch> touches;
  for (OpId op : execution_order(schedule)) {
    storages_of(graph, op, touches);
    for (const StorageTouch& t : touches) {
      if (!t.writes || t.inside || !operations.contains(op)) read.insert(t.storage);
    }
  }
  std::erase_if(schedule.nodes, [&](const ScheduleNode& node) {
    return node.kind == ScheduleNode::Kind::single && operations.contains(node.op) &&
           !read.contains(root_storage(graph, graph[node.op].outputs[0]));
  });
}

}  // namespace braid::passes
