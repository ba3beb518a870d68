#include "passes/make_blocking.h"

#include <algorithm>
#include <set>

#include "ir/collective_order.h"
#include "ir/collective_table.h"
#include "ir/error.h"
#include "ir/id_vector.h"
#include "passes/compact.h"
#include "passes/visit_ids.h"

namespace braid::passes {
namespace {

using namespace ir;

// Removes the operations of `gone` from the node; false if nothing is left of it.
bool strip(ScheduleNode& node, const IdVector<OpId, bool>& gone) {
  if (node.kind == ScheduleNode::Kind::single) return !gone[node.op];
  std::erase_if(node.members, [&](ScheduleNode& m) { return !strip(m, gone); });
  return !node.members.empty();
}

void strip(Schedule& schedule, const IdVector<OpId, bool>& gone) {
  std::set<std::string> empty_groups;
  std::erase_if(schedule.nodes, [&](ScheduleNode& node) {
    if (strip(node, gone)) return false;
    if (node.kind == ScheduleNode::Kind::grouped) empty_groups.insert(node.name);
    return true;
  });
  if (empty_groups.empty()) return;
  for (ScheduleNode& node : schedule.nodes)
    std::erase_if(node.after, [&](const std::string& name) { return empty_groups.contains(name); });
}

// `alone`: only those whose wait is the next operation that communicates.
void allow(const Graph& graph, const std::vector<OpId>& ops, bool alone, IdVector<OpId, bool>& allowed) {
  OpId last;  // the last operation that communicates, if it is a start
  for (const OpId id : ops) {
    const Operation& op = graph[id];
    if (const auto* region = op.as<RegionKernel>()) {
      for (const Region& r : region->regions) allow(graph, r.ops, alone, allowed);
      last = {};
    } else if (const auto* kernel = op.as<CollectiveKernel>()) {
      allowed[id] = !alone && !row_of(kernel->kind).point_to_point;
      last = row_of(kernel->kind).point_to_point ? OpId{} : id;
    } else if (const auto* wait = op.as<WaitKernel>()) {
      if (wait->start == last) allowed[last] = true;
      last = {};
    } else if (op.as<ReleaseKernel>() != nullptr) {
      last = {};
    }
  }
}

}  // namespace

IdVector<OpId, bool> may_block(const Schedule& schedule) {
  IdVector<OpId, bool> allowed(schedule.graph.ops.size(), false);
  allow(schedule.graph, execution_order(schedule), !transfers_meet(schedule), allowed);
  return allowed;
}

bool make_blocking(Schedule& schedule, std::span<const OpId> starts) {
  Graph& graph = schedule.graph;
  IdVector<OpId, bool> wanted(graph.ops.size(), false), gone(graph.ops.size(), false);
  bool changed = false;
  for (OpId id : starts) {
    auto* kernel = graph[id].as<CollectiveKernel>();
    internal_check(kernel != nullptr && !row_of(kernel->kind).point_to_point, "'{}' cannot block",
                   graph[id].name);
    if (kernel->blocking) continue;
    kernel->blocking = wanted[id] = changed = true;
  }
  if (!changed) return false;

  // Users of a wait's result use the collective's instead.
  IdVector<BufferId, BufferId> same(graph.buffers.size());
  const auto is_wanted = [&](OpId start) { return wanted[start]; };
  for (const OpId k : gone.ids()) {
    Operation& op = graph[k];
    if (const auto* wait = op.as<WaitKernel>(); wait && is_wanted(wait->start)) {
      const auto& outputs = graph[wait->start].as<CollectiveKernel>()->outputs;
      for (std::size_t i = 0; i < op.outputs.size(); ++i) same[op.outputs[i]] = outputs[i].buffer;
      gone[k] = true;
    } else if (const auto* release = op.as<ReleaseKernel>(); release && is_wanted(release->start)) {
      gone[k] = true;
    }
  }
  const auto rename = [&](BufferId& b) {
    while (b.valid() && same[b].valid()) b = same[b];
  };
  for (const OpId k : gone.ids()) {
    if (gone[k]) continue;
    visit_ids(graph[k], rename, [](OpId&) {});
    if (auto* region = graph[k].as<RegionKernel>()) {
      for (Region& r : region->regions) std::erase_if(r.ops, [&](OpId op) { return gone[op]; });
    }
  }
  for (Buffer& b : graph.buffers) {
    if (auto* view = std::get_if<NonOwningLayout>(&b.layout)) rename(view->base);
    if (auto* mutation = std::get_if<MutationOutput>(&b.layout)) rename(mutation->of);
  }
  for (GraphOutput& o : graph.outputs) rename(o.buffer);
  strip(schedule, gone);
  schedule.plan.reset();
  compact(schedule);
  return true;
}

}  // namespace braid::passes
