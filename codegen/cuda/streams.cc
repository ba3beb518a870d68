#include "codegen/cuda/streams.h"

#include <algorithm>

#include "ir/effects.h"

namespace braid::codegen::cuda {
namespace {

struct Touch {
  ir::Access access;
  std::optional<MemoryMap::Place> place;
};

// Whether both touch the same bytes, possibly as different storages with one place in the plan.
bool same_bytes(const ir::Graph& graph, const Touch& a, const Touch& b) {
  if (a.access.region.storage == b.access.region.storage)
    return ir::may_overlap(graph, a.access.view, b.access.view);
  if (!a.place || !b.place || a.place->base != b.place->base) return false;
  if (a.place->base != MemoryMap::Place::Base::arena && a.place->base != MemoryMap::Place::Base::segment)
    return false;
  return a.place->offset < b.place->offset + b.place->bytes &&
         b.place->offset < a.place->offset + a.place->bytes;
}

enum class Conflict : std::uint8_t { none, overwrites_read, other };

// The conflict of a later kernel with an earlier collective; the strongest over all pairs.
Conflict conflict(const ir::Graph& graph, const std::vector<Touch>& kernel,
                  const std::vector<Touch>& collective) {
  Conflict found = Conflict::none;
  for (const Touch& k : kernel) {
    for (const Touch& c : collective) {
      if (!k.access.writes() && !c.access.writes()) continue;
      if (!same_bytes(graph, k, c)) continue;
      if (c.access.writes()) return Conflict::other;
      found = Conflict::overwrites_read;
    }
  }
  return found;
}

}  // namespace

UnitKind kind_of(const ir::Graph& graph, const Unit& unit) {
  const ir::Operation& op = graph[unit.ops[0]];
  if (op.as<ir::CollectiveKernel>() != nullptr) return UnitKind::collective;
  if (op.as<ir::WaitKernel>() != nullptr || op.as<ir::ReleaseKernel>() != nullptr) return UnitKind::nothing;
  return UnitKind::compute;
}

StreamPlan plan_streams(const ir::Graph& graph, const std::vector<Unit>& units, const MemoryMap& memory,
                        const PlantedFault& fault) {
  StreamPlan plan;
  plan.waits.resize(units.size());
  plan.records.assign(units.size(), -1);
  std::vector<std::vector<Touch>> touches(units.size());
  std::vector<UnitKind> kinds(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    kinds[u] = kind_of(graph, units[u]);
    if (kinds[u] == UnitKind::nothing) continue;
    for (ir::OpId op : units[u].ops) {
      for (ir::Access& a : ir::effects(graph, op).accesses) {
        std::optional<MemoryMap::Place> place = memory.place(a.region.storage);
        if (place) touches[u].push_back({std::move(a), place});  // values inside a fused node have no memory
      }
    }
  }
  int count_of_reason[3] = {0, 0, 0};
  // Adds the edge, unless a test leaves it out on purpose; returns whether it did.
  const auto add_edge = [&](std::size_t from, std::size_t to, EdgeReason reason) {
    const int number = count_of_reason[static_cast<std::size_t>(reason)]++;
    if (fault.planted && fault.reason == reason && fault.which == number) return false;
    if (plan.records[from] < 0) plan.records[from] = plan.events++;
    plan.edges.push_back({from, to, reason, plan.records[from]});
    plan.waits[to].push_back(plan.records[from]);
    return true;
  };
  // What each stream has seen of the other: units up to these are complete before anything that it runs next. The
  // fork at the beginning of the step covers earlier work.
  int comm_has_seen = -1, compute_has_seen = -1;
  std::vector<std::size_t> collectives;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (kinds[u] == UnitKind::collective) {
      plan.collectives = true;
      plan.last_collective = static_cast<int>(u);
      collectives.push_back(u);
      for (int before = static_cast<int>(u) - 1; before > comm_has_seen; --before) {
        const auto b = static_cast<std::size_t>(before);
        if (kinds[b] != UnitKind::compute) continue;
        if (conflict(graph, touches[b], touches[u]) == Conflict::none) continue;
        // If an edge is left out on purpose, the stream has seen less.
        if (add_edge(b, u, EdgeReason::before_collective)) comm_has_seen = before;
        break;
      }
    } else if (kinds[u] == UnitKind::compute && plan.collectives) {
      for (std::size_t k = collectives.size();
           k-- > 0 && static_cast<int>(collectives[k]) > compute_has_seen;) {
        const std::size_t b = collectives[k];
        const Conflict c = conflict(graph, touches[u], touches[b]);
        if (c == Conflict::none) continue;
        const EdgeReason reason =
            c == Conflict::other ? EdgeReason::reads_result : EdgeReason::overwrites_input;
        if (add_edge(b, u, reason)) compute_has_seen = static_cast<int>(b);
        break;
      }
    }
  }
  // The next work, this program's next step or the caller's, must come after everything.
  if (plan.collectives && compute_has_seen < plan.last_collective) {
    plan.join = true;
    auto& record = plan.records[static_cast<std::size_t>(plan.last_collective)];
    if (record < 0) record = plan.events++;
  }
  return plan;
}

}  // namespace braid::codegen::cuda
