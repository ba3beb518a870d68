#include "passes/compact.h"

#include <algorithm>
#include <map>

#include "ir/error.h"
#include "passes/visit_ids.h"

namespace braid::passes {
namespace {

using namespace ir;

class Marker {
 public:
  explicit Marker(Graph& graph)
      : graph_(graph),
        ops(graph.ops.size()),
        buffers(graph.buffers.size()),
        storages(graph.storages.size()) {}

  void op(OpId id) {
    if (!id.valid() || ops[index(id)]) return;
    ops[index(id)] = true;
    visit_ids(
        graph_[id], [&](BufferId& b) { buffer(b); }, [&](OpId& o) { op(o); });
  }
  void buffer(BufferId id) {
    while (id.valid() && !buffers[index(id)]) {
      buffers[index(id)] = true;
      const Buffer& b = graph_[id];
      if (b.storage.valid()) storage(b.storage);
      if (const auto* view = std::get_if<NonOwningLayout>(&b.layout)) {
        id = view->base;
      } else if (const auto* mutation = std::get_if<MutationOutput>(&b.layout)) {
        id = mutation->of;
      } else {
        return;
      }
    }
  }
  void storage(StorageId id) {
    for (; id.valid() && !storages[index(id)]; id = graph_[id].alias_of) storages[index(id)] = true;
  }

 private:
  template <class Tag>
  static std::size_t index(Id<Tag> id) {
    return static_cast<std::size_t>(id.index);
  }
  Graph& graph_;

 public:
  std::vector<bool> ops, buffers, storages;
};

// Keeps the marked entries of a table; returns the new id of each old index, -1 if it is removed.
template <class T>
std::vector<std::int32_t> keep(std::vector<T>& table, const std::vector<bool>& marked) {
  std::vector<std::int32_t> map(table.size(), -1);
  std::int32_t next = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (!marked[i]) continue;
    map[i] = next;
    if (static_cast<std::size_t>(next) != i) table[static_cast<std::size_t>(next)] = std::move(table[i]);
    ++next;
  }
  table.erase(table.begin() + next, table.end());
  return map;
}

template <class Tag>
void renumber(Id<Tag>& id, const std::vector<std::int32_t>& map) {
  if (id.valid()) id.index = map[static_cast<std::size_t>(id.index)];
}

void renumber_node(ScheduleNode& node, const std::vector<std::int32_t>& ops) {
  renumber(node.op, ops);
  for (ScheduleNode& member : node.members) renumber_node(member, ops);
}

}  // namespace

bool compact(Schedule& schedule) {
  Graph& graph = schedule.graph;
  Marker live(graph);
  for (OpId op : execution_order(schedule)) live.op(op);
  for (const GraphInput& i : graph.inputs) live.buffer(i.buffer);
  for (const GraphOutput& o : graph.outputs) live.buffer(o.buffer);
  const auto all = [](const std::vector<bool>& v) { return std::find(v.begin(), v.end(), false) == v.end(); };
  if (all(live.ops) && all(live.buffers) && all(live.storages)) return false;

  const std::vector<std::int32_t> ops = keep(graph.ops, live.ops);
  const std::vector<std::int32_t> buffers = keep(graph.buffers, live.buffers);
  const std::vector<std::int32_t> storages = keep(graph.storages, live.storages);
  for (Operation& op : graph.ops) {
    visit_ids(
        op, [&](BufferId& b) { renumber(b, buffers); }, [&](OpId& o) { renumber(o, ops); });
  }
  for (Buffer& b : graph.buffers) {
    renumber(b.storage, storages);
    renumber(b.producer, ops);
    if (auto* view = std::get_if<NonOwningLayout>(&b.layout)) renumber(view->base, buffers);
    if (auto* mutation = std::get_if<MutationOutput>(&b.layout)) renumber(mutation->of, buffers);
  }
  for (Storage& s : graph.storages) renumber(s.alias_of, storages);
  for (GraphInput& i : graph.inputs) renumber(i.buffer, buffers);
  for (GraphOutput& o : graph.outputs) renumber(o.buffer, buffers);
  for (OpId& measure : graph.measures) renumber(measure, ops);
  std::erase_if(graph.measures, [](OpId measure) { return !measure.valid(); });
  for (ScheduleNode& n : schedule.nodes) renumber_node(n, ops);
  if (schedule.plan) {
    std::map<StorageId, Placement> placements;
    for (const auto& [old, placement] : schedule.plan->placements) {
      StorageId storage = old;
      renumber(storage, storages);
      if (storage.valid()) placements[storage] = placement;
    }
    schedule.plan->placements = std::move(placements);
  }
  return true;
}

}  // namespace braid::passes
