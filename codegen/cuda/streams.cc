#include "codegen/cuda/streams.h"

#include <algorithm>

#include "codegen/cuda/touches.h"

namespace braid::codegen::cuda {
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
  std::vector<std::vector<Touch>> touches;
  std::vector<UnitKind> kinds(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    kinds[u] = kind_of(graph, units[u]);
    touches.push_back(touches_of(graph, units[u], memory));
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
  // The last unit of the other stream that each stream has seen: units up to it are complete before anything
  // that the stream runs next. The fork at the beginning of the step covers earlier work.
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
        if (conflict(graph, touches[u], touches[b]) == Conflict::none) continue;
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
