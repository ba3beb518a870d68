#include "passes/overlap/braid_schedule.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/effects.h"
#include "passes/overlap/bounds.h"
#include "passes/overlap/memory_model.h"
#include "passes/overlap/order_search.h"
#include "passes/overlap/problem.h"
#include "passes/overlap/simulator.h"

namespace braid::passes {
namespace {

using namespace ir;

// Ranks of such a program may run different orders, and a send meets its receive only in the order agreed
// upon.
bool has_point_to_point(const Schedule& schedule) {
  for (OpId op : execution_order(schedule)) {
    const auto* c = schedule.graph[op].as<CollectiveKernel>();
    if (c != nullptr && (c->kind == CollectiveKind::send || c->kind == CollectiveKind::recv)) return true;
  }
  return false;
}

LiveBytes live_bytes(const MemoryModel& model, int nodes) {
  std::vector<LiveTenant> tenants;
  tenants.reserve(model.tenants().size());
  for (const Tenant& t : model.tenants())
    tenants.push_back({t.bytes, t.comm ? 1 : 0, false, t.to_end, t.nodes});
  return LiveBytes(nodes, std::move(tenants));
}

}  // namespace

bool BraidSchedule::run(Schedule& schedule, PassContext& context) {
  const Problem problem =
      make_problem(schedule, *context.costs, {.channel_order = has_point_to_point(schedule)});
  if (problem.collectives.empty()) return false;
  const MemoryModel model(schedule);
  const LiveBytes live = live_bytes(model, problem.size());
  const std::vector<int> input = identity_order(problem.size());

  OrderSearchOptions options;
  options.appends_per_node = std::max<std::int64_t>(budget, 0);
  options.cap = context.memory_cap;
  options.bound = lower_bounds(problem).best();
  if (memory_growth >= 0) {
    const auto most = static_cast<std::int64_t>(
        std::floor(static_cast<double>(model.planned_bytes(input)) * (1 + memory_growth / 100)));
    options.cap = std::min(options.cap.value_or(most), most);
  }
  const OrderMemory memory{&live, [&](std::span<const int> order) { return model.planned_bytes(order); }};
  const FoundOrder found = search_order(problem, memory, options);
  if (!found.keeps_cap) check_cap(schedule, model, found.order, *context.memory_cap);
  return apply_order(schedule, found.order);
}

}  // namespace braid::passes
