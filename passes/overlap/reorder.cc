#include "passes/overlap/reorder.h"

#include <algorithm>
#include <limits>
#include <ranges>

#include "analysis/measure.h"
#include "analysis/order_analysis.h"
#include "ir/error.h"
#include "passes/overlap/early_releases.h"
#include "passes/pass_context.h"

namespace braid::passes {
namespace {

using namespace analysis;

// Positions that the starts went up and the waits down, by collective.
IdVector<CollectiveId, int> moves(const Problem& problem, OrderView order) {
  const IdVector<NodeId, Position> position = positions_of(order);
  IdVector<CollectiveId, int> out;
  for (const Collective& c : problem.collectives) {
    int n = std::max(0, c.start.index - position[c.start].index);
    if (c.wait.valid()) n += std::max(0, position[c.wait].index - c.wait.index);
    out.push_back(n);
  }
  return out;
}

void check_topological(std::string_view pass, const ir::Schedule& schedule, const Problem& problem,
                       OrderView order) {
  ir::internal_check(order.end_id().index == problem.size(), "{}: got an order of {} nodes for {}", pass,
                     order.size(), problem.size());
  IdVector<NodeId, char> done(problem.nodes(), 0);
  for (const NodeId n : order) {
    for (const NodeId before : problem.predecessors(n)) {
      ir::internal_check(done[before] != 0, "{}: '{}' would run before '{}', on which it depends", pass,
                         ir::name_of(schedule, n.index), ir::name_of(schedule, before.index));
    }
    done[n] = 1;
  }
}

}  // namespace

IdVector<NodeId, int> Reordering::first_start_of() const {
  IdVector<NodeId, int> first(problem.nodes(), std::numeric_limits<int>::max());
  int index = 0;
  for (const NodeId n : problem.nodes()) {
    if (starts(n)) first[n] = index++;
  }
  for (const NodeId n : std::views::reverse(problem.nodes())) {
    for (const NodeId after : problem.successors(n)) first[n] = std::min(first[n], first[after]);
  }
  return first;
}

bool reorder(std::string_view pass, ir::Schedule& schedule, PassContext& context,
             const std::function<Order(Reordering&)>& decide, const ReorderOptions& options) {
  const ProblemOptions kept{.channel_order =
                                !options.may_reorder_collectives || has_point_to_point(schedule)};
  std::shared_ptr<const OrderAnalysis> analysis = analyse(schedule, context, kept);
  if (analysis->problem.collectives.empty() && !options.without_collectives) return false;
  const MeasureOptions cheap{.bounds = false, .planned = false};
  const Order input = identity_order(analysis->problem.nodes());
  const Measurement before = measure(schedule, analysis->problem, analysis->memory, input, cheap);
  // The pass decides as if no release were late, and delays none.
  const Order early = with_early_releases(analysis->problem, input);
  const bool released = apply_order(schedule, early);
  if (released) context.analysis = analysis = analysis->in_order(early);
  const Problem& problem = analysis->problem;
  const MemoryModel& memory = analysis->memory;
  Reordering r{schedule, problem, memory, context,
               Freedom{.starts = true, .waits = true, .collectives = options.may_reorder_collectives}};
  const Order order = with_early_releases(problem, decide(r));
  check_topological(pass, schedule, problem, order);

  OverlapReport report =
      make_report(std::string(pass), before, measure(schedule, problem, memory, order, cheap));
  report.freedom = r.freedom;
  const IdVector<CollectiveId, int> moved = moves(problem, order);
  std::size_t next = 0;
  for (NodeId node : order) {
    for (const Step& step : problem.steps_of(node)) {
      if (step.kind != Step::Kind::start) continue;
      report.collectives[next++].moves = moved[step.collective];
    }
  }
  context.reports.push_back(std::move(report));
  if (!apply_order(schedule, order)) return released;
  context.analysis = analysis->in_order(order);
  return true;
}

}  // namespace braid::passes
