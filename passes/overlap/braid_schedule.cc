#include "passes/overlap/braid_schedule.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/dependencies.h"
#include "ir/effects.h"
#include "passes/overlap/bounds.h"
#include "passes/overlap/measure.h"
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

std::vector<int> positions(std::span<const int> order) {
  std::vector<int> out(order.size());
  for (std::size_t k = 0; k < order.size(); ++k)
    out[static_cast<std::size_t>(order[k])] = static_cast<int>(k);
  return out;
}

// Why the start of an exposed collective does not stand further up.
Limit limit_of(const Schedule& schedule, const Problem& p, std::span<const int> order,
               std::span<const int> position, const Timeline& timeline, int collective, bool capped) {
  const Collective& c = p.collectives[static_cast<std::size_t>(collective)];
  const CollectiveTimes& times = timeline.collectives[static_cast<std::size_t>(collective)];
  if (times.exposed.ps == 0) return {LimitReason::cost, {}, -1, 0};
  const int at = position[static_cast<std::size_t>(c.start)];
  int before = -1;  // the last node that it needs
  for (int n : p.predecessors(c.start)) before = std::max(before, position[static_cast<std::size_t>(n)]);
  bool computes = false;
  for (int k = before + 1; k < at; ++k) computes |= p.compute_time(order[static_cast<std::size_t>(k)]).ps > 0;
  if (times.issued < times.begin) {
    // The channel was busy with the one that ended when this one began.
    for (std::size_t o = 0; o < p.collectives.size(); ++o) {
      if (p.collectives[o].channel == c.channel && timeline.collectives[o].end == times.begin &&
          static_cast<int>(o) != collective) {
        return {LimitReason::order, schedule.graph[p.collectives[o].op].name, -1, 0};
      }
    }
  }
  if (!computes && before >= 0)
    return {LimitReason::data, name_of(schedule, order[static_cast<std::size_t>(before)]), -1, 0};
  if (!computes) return {LimitReason::boundary, {}, -1, 0};
  return {capped ? LimitReason::memory : LimitReason::cost, {}, -1, 0};
}

OverlapReport report_of(const Schedule& schedule, const Problem& p, const MemoryModel& model,
                        std::span<const int> input, std::span<const int> order, bool capped) {
  OverlapReport report =
      make_report(std::string(BraidSchedule::kName), measure(schedule, p, model, input, {.bounds = false}),
                  measure(schedule, p, model, order));
  const std::vector<int> position = positions(order);
  const Timeline timeline = simulate(p, order);
  std::size_t next = 0;  // reports stand in the order of the starts
  for (const int n : order) {
    for (const Step& step : p.steps_of(n)) {
      if (step.kind != Step::Kind::start) continue;
      const Collective& c = p.collectives[static_cast<std::size_t>(step.collective)];
      CollectiveReport& r = report.collectives[next++];
      r.moves = c.start - position[static_cast<std::size_t>(c.start)];
      if (c.wait >= 0) r.moves += position[static_cast<std::size_t>(c.wait)] - c.wait;
      r.moves = std::max(r.moves, 0);
      r.limit = limit_of(schedule, p, order, position, timeline, step.collective, capped);
    }
  }
  return report;
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
  context.reports.push_back(report_of(schedule, problem, model, input, found.order, options.cap.has_value()));
  return apply_order(schedule, found.order);
}

}  // namespace braid::passes
