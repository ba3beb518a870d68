#include "explain/overlap_story.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "explain/order_limits.h"
#include "ir/kernel_parts.h"
#include "passes/select_kernels.h"

namespace braid::explain {
namespace {

using namespace analysis;

std::string label_of(const ir::Schedule& schedule, const ir::ScheduleNode& node) {
  const std::vector<ir::OpId> ops = ir::ops_of(node);
  const ir::Operation& op = schedule.graph[ops.front()];
  if (ops.size() > 1) return fmt::format("fused kernel of {} loops", ops.size());
  if (const auto* k = op.as<ir::ExternKernel>()) return "extern " + k->callee;
  if (const auto* k = op.as<ir::WaitKernel>()) return "wait for " + schedule.graph[k->start].name;
  if (op.as<ir::CollectiveKernel>() != nullptr || op.as<ir::ReleaseKernel>() != nullptr) return op.name;
  return std::string(ir::kind_name(op.kernel));
}

bool is_kernel(const ir::Schedule& schedule, const ir::ScheduleNode& part) {
  if (part.kind == ir::ScheduleNode::Kind::fused) return true;
  const ir::Operation& op = schedule.graph[part.op];
  return !op.as<ir::CollectiveKernel>() && !op.as<ir::WaitKernel>() && !op.as<ir::ReleaseKernel>();
}

void leaves(const ir::ScheduleNode& node, std::vector<const ir::ScheduleNode*>& out) {
  if (node.kind != ir::ScheduleNode::Kind::grouped) {
    out.push_back(&node);
    return;
  }
  for (const ir::ScheduleNode& m : node.members) leaves(m, out);
}

// The choices of select_kernels if it ran on this schedule; otherwise the current kernels.
std::vector<passes::KernelChoice> kernels_of(const ir::Schedule& schedule,
                                             const passes::PassContext& context) {
  std::vector<passes::KernelChoice> now = passes::SelectKernels{.policy = "engine"}.choose(schedule, context);
  const auto same = [](const passes::KernelChoice& a, const passes::KernelChoice& b) {
    return a.name == b.name && a.kernel == b.kernel && a.blocking == b.blocking && a.max_bytes == b.max_bytes;
  };
  const bool current =
      std::equal(now.begin(), now.end(), context.kernel_choices.begin(), context.kernel_choices.end(), same);
  return current ? context.kernel_choices : now;
}

}  // namespace

TimelineView timeline_view(const ir::Schedule& schedule, const CostModel& costs) {
  const Problem p = make_problem(schedule, costs, {.channel_order = false});
  const Order order = identity_order(p.nodes());
  const Timeline t = simulate(p, order);
  TimelineView view;
  view.makespan = t.makespan;
  view.lanes.push_back("compute");
  // A channel is named after its communicator; several of one communicator are counted.
  IdVector<ChannelId, int> lane_of(p.channel_ids(), -1);
  for (const Collective& c : p.collectives) {
    int& lane = lane_of[c.channel];
    if (lane >= 0) continue;
    lane = static_cast<int>(view.lanes.size());
    const std::string group =
        "@" + schedule.graph[schedule.graph[c.op].as<ir::CollectiveKernel>()->group].name;
    const auto same = std::count_if(view.lanes.begin(), view.lanes.end(),
                                    [&](const std::string& l) { return l.starts_with(group); });
    view.lanes.push_back(same == 0 ? group : fmt::format("{} ({})", group, same + 1));
  }
  const MemoryModel memory(schedule);
  const MemoryModel::Live live = memory.live(order);
  for (NodeId n : p.nodes()) {
    std::vector<const ir::ScheduleNode*> parts;
    leaves(at(schedule.nodes, n), parts);
    std::size_t part_index = 0;
    for (const StepId s : p.step_ids(n)) {
      const Interval& i = t.steps[s];
      const ir::ScheduleNode& part = *parts[part_index];
      const bool kernel = is_kernel(schedule, part);
      // The cost of a call precedes the call.
      if (kernel || p.steps[s].kind != Step::Kind::compute) ++part_index;
      if (s == p.first_step[n]) view.live.emplace_back(i.begin, live.bytes[Position{n.index}]);
      if (i.begin == i.end) continue;
      const std::string name =
          part.kind == ir::ScheduleNode::Kind::single ? schedule.graph[part.op].name : part.name;
      view.spans.push_back(
          {name, label_of(schedule, part), 0, i.begin, i.end, p.steps[s].kind != Step::Kind::compute});
    }
  }
  for (CollectiveId c : p.collectives.ids()) {
    const Collective& collective = p.collectives[c];
    view.spans.push_back({schedule.graph[collective.op].name,
                          describe_collective(schedule.graph, collective.op), lane_of[collective.channel],
                          t.collectives[c].begin, t.collectives[c].end, false});
  }
  return view;
}

void OverlapObserver::observe(const passes::Pass&, const ir::Schedule& before, const ir::Schedule& after) {
  while (seen_ < context_.reports.size()) {
    OverlapStep step{context_.reports[seen_++], measure(before, *context_.costs),
                     measure(after, *context_.costs)};
    add_limits(step.report, after, *context_.costs);
    step.report.bound = step.after.bounds.best();
    step.report.planned_before = step.before.planned_bytes;
    step.report.planned_after = step.after.planned_bytes;
    if (!begun_) {
      begun_ = true;
      story_.first = step.before;
      story_.first_view = timeline_view(before, *context_.costs);
    }
    story_.steps.push_back(std::move(step));
  }
}

// Reports for each collective the moves by all passes together, and the limit that remains after the last
// pass.
void OverlapObserver::explain_last(const ir::Schedule& last) {
  const Measurement& first = begun_ ? story_.first : story_.last;
  OverlapReport all = make_report("", first, story_.last);
  std::map<std::string, int> moves;
  for (const OverlapStep& s : story_.steps) {
    all.pass = s.report.pass;
    all.freedom = s.report.freedom;
    for (const CollectiveReport& c : s.report.collectives) moves[c.name] += c.moves;
  }
  for (CollectiveReport& c : all.collectives) c.moves = moves[c.name];
  add_limits(all, last, *context_.costs);
  story_.last.collectives = std::move(all.collectives);
}

OverlapStory OverlapObserver::story(const ir::Schedule& last) {
  story_.machine = context_.costs->machine().name;
  story_.last = measure(last, *context_.costs);
  explain_last(last);
  story_.last_view = timeline_view(last, *context_.costs);
  story_.any_collective = !story_.last.collectives.empty();
  story_.kernels = kernels_of(last, context_);
  if (!begun_) {
    story_.first = story_.last;
    story_.first_view = story_.last_view;
  }
  return std::move(story_);
}

}  // namespace braid::explain
