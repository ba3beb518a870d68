#include "analysis/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/offset_assignment.h"
#include "ir/collective_table.h"
#include "ir/error.h"

namespace braid::analysis {

using namespace ir;

double Measurement::gap() const {
  const Time bound = bounds.best();
  return bound.ps == 0 ? 0 : static_cast<double>(makespan.ps) / static_cast<double>(bound.ps) - 1;
}

std::string format_bytes(std::int64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string describe_collective(const Graph& graph, OpId start) {
  const auto* kernel = graph[start].as<CollectiveKernel>();
  internal_check(kernel != nullptr, "'{}' is not a collective", graph[start].name);
  std::int64_t bytes = 0;
  for (const TensorRef& t : payload(*kernel)) {
    const std::int64_t part = ir::bounds(numel(t.sizes) * size_of(graph[t.buffer].dtype)).max;
    if (part >= kUnbounded) {
      return fmt::format("{} @{}", to_string(kernel->kind), graph[kernel->group].name);
    }
    bytes = checked_add(bytes, part);
  }
  return fmt::format("{} @{} {}", to_string(kernel->kind), graph[kernel->group].name, format_bytes(bytes));
}

Measurement measure(const Schedule& schedule, const Problem& problem, const MemoryModel& memory,
                    OrderView order, const MeasureOptions& options) {
  const Timeline t = simulate(problem, order);
  Measurement m;
  m.makespan = t.makespan;
  m.exposed = t.exposed;
  if (options.bounds) {
    m.bounds = lower_bounds(problem);
    m.input_bound = input_bound(problem);
  }
  const MemoryModel::Live live = memory.live(order);
  m.live_peak = live.peak;
  m.live_peak_step = live.peak_step;
  if (options.planned) m.planned_bytes = memory.planned_bytes(order);
  for (const NodeId node : order) {
    for (const Step& step : problem.steps_of(node)) {
      if (step.kind != Step::Kind::start) continue;
      const Collective& collective = problem.collectives[step.collective];
      CollectiveReport r;
      r.name = schedule.graph[collective.op].name;
      r.kernel = describe_collective(schedule.graph, collective.op);
      r.cost = collective.cost.time;
      r.initial_exposed = r.final_exposed = t.collectives[step.collective].exposed;
      m.collectives.push_back(std::move(r));
    }
  }
  return m;
}

Measurement measure(const Schedule& schedule, const CostModel& costs, const MeasureOptions& options) {
  // Collectives may change places in what is measured, so the bounds must hold for those orders too.
  const Problem problem = options.bounds ? make_problem(schedule, costs, {.channel_order = false})
                                         : make_fixed_problem(schedule, costs);
  return measure(schedule, problem, MemoryModel(schedule), identity_order(problem.nodes()), options);
}

OverlapReport make_report(std::string pass, const Measurement& before, const Measurement& after) {
  OverlapReport r;
  r.pass = std::move(pass);
  r.makespan_before = before.makespan;
  r.makespan_after = after.makespan;
  r.bound = after.bounds.best();
  r.planned_before = before.planned_bytes;
  r.planned_after = after.planned_bytes;
  r.live_before = before.live_peak;
  r.live_after = after.live_peak;
  r.collectives = after.collectives;
  std::map<std::string_view, Time> exposed;
  for (const CollectiveReport& c : before.collectives) exposed[c.name] = c.final_exposed;
  for (CollectiveReport& c : r.collectives) {
    const auto found = exposed.find(c.name);
    c.initial_exposed = found == exposed.end() ? Time{} : found->second;
  }
  return r;
}

}  // namespace braid::analysis
