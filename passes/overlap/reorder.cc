#include "passes/overlap/reorder.h"

#include <algorithm>

#include "analysis/measure.h"
#include "analysis/order_analysis.h"
#include "ir/error.h"
#include "passes/overlap/early_releases.h"
#include "passes/pass_context.h"

namespace braid::passes {
namespace {

using namespace analysis;

// Positions that the starts went up and the waits down, by collective.
std::vector<int> moves(const Problem& problem, std::span<const int> order) {
  std::vector<int> position(order.size());
  for (std::size_t k = 0; k < order.size(); ++k)
    position[static_cast<std::size_t>(order[k])] = static_cast<int>(k);
  std::vector<int> out;
  for (const Collective& c : problem.collectives) {
    int n = std::max(0, c.start - position[static_cast<std::size_t>(c.start)]);
    if (c.wait >= 0) n += std::max(0, position[static_cast<std::size_t>(c.wait)] - c.wait);
    out.push_back(n);
  }
  return out;
}

void check_topological(std::string_view pass, const ir::Schedule& schedule, const Problem& problem,
                       std::span<const int> order) {
  ir::internal_check(static_cast<int>(order.size()) == problem.size(), "{}: an order of {} nodes for {}",
                     pass, order.size(), problem.size());
  std::vector<bool> done(order.size(), false);
  for (int n : order) {
    for (int before : problem.predecessors(n)) {
      ir::internal_check(done[static_cast<std::size_t>(before)],
                         "{}: '{}' would run before '{}', on which it depends", pass,
                         ir::name_of(schedule, n), ir::name_of(schedule, before));
    }
    done[static_cast<std::size_t>(n)] = true;
  }
}

}  // namespace

bool reorder(std::string_view pass, ir::Schedule& schedule, PassContext& context,
             const std::function<std::vector<int>(Reordering&)>& decide, const ReorderOptions& options) {
  const ProblemOptions kept{.channel_order =
                                !options.may_reorder_collectives || has_point_to_point(schedule)};
  std::shared_ptr<const OrderAnalysis> analysis = analyse(schedule, context, kept);
  if (analysis->problem.collectives.empty() && !options.without_collectives) return false;
  const MeasureOptions cheap{.bounds = false, .planned = false};
  const std::vector<int> input = identity_order(analysis->problem.size());
  const Measurement before = measure(schedule, analysis->problem, analysis->memory, input, cheap);
  // The pass decides as if no release were late, and delays none.
  const std::vector<int> early = with_early_releases(analysis->problem, input);
  const bool released = apply_order(schedule, early);
  if (released) context.analysis = analysis = analysis->in_order(early);
  const Problem& problem = analysis->problem;
  const MemoryModel& memory = analysis->memory;
  Reordering r{schedule, problem, memory, context,
               Freedom{.starts = true, .waits = true, .collectives = options.may_reorder_collectives}};
  const std::vector<int> order = with_early_releases(problem, decide(r));
  check_topological(pass, schedule, problem, order);

  OverlapReport report =
      make_report(std::string(pass), before, measure(schedule, problem, memory, order, cheap));
  report.freedom = r.freedom;
  const std::vector<int> moved = moves(problem, order);
  std::size_t next = 0;
  for (int node : order) {
    for (const Step& step : problem.steps_of(node)) {
      if (step.kind != Step::Kind::start) continue;
      report.collectives[next++].moves = moved[static_cast<std::size_t>(step.collective)];
    }
  }
  context.reports.push_back(std::move(report));
  if (!apply_order(schedule, order)) return released;
  context.analysis = analysis->in_order(order);
  return true;
}

}  // namespace braid::passes
