#include "analysis/order_analysis.h"

#include <algorithm>

#include "ir/collective_table.h"

namespace braid::analysis {
OrderAnalysis::OrderAnalysis(const ir::Schedule& schedule, std::shared_ptr<const CostModel> costs,
                             const ProblemOptions& options)
    : problem(make_problem(schedule, *costs, options)),
      memory(schedule),
      costs_(std::move(costs)),
      graph_(schedule.graph.pool),
      channels_(schedule.channels),
      channel_order_(options.channel_order) {
  for (const ir::ScheduleNode& node : schedule.nodes) ops_.push_back(ir::ops_of(node));
}

bool OrderAnalysis::describes(const ir::Schedule& schedule, const CostModel& costs,
                              const ProblemOptions& options) const {
  if (&costs != costs_.get() || schedule.graph.pool != graph_ || schedule.channels != channels_ ||
      options.channel_order != channel_order_ || schedule.nodes.size() != ops_.ids().size()) {
    return false;
  }
  return std::ranges::all_of(ops_.ids(), [&](NodeId n) {
    const ir::ScheduleNode& node = at(schedule.nodes, n);
    if (node.kind == ir::ScheduleNode::Kind::single) return ops_[n].size() == 1 && ops_[n].front() == node.op;
    return std::ranges::equal(ir::ops_of(node), ops_[n]);
  });
}

std::shared_ptr<const OrderAnalysis> OrderAnalysis::in_order(OrderView order) const {
  std::shared_ptr<OrderAnalysis> out(new OrderAnalysis(permuted(problem, order), memory.permuted(order)));
  out->costs_ = costs_;
  out->graph_ = graph_;
  out->channels_ = channels_;
  out->channel_order_ = channel_order_;
  for (const NodeId n : order) out->ops_.push_back(ops_[n]);
  return out;
}

bool has_point_to_point(const ir::Schedule& schedule) {
  return std::ranges::any_of(schedule.graph.ops, [](const ir::Operation& op) {
    const auto* k = op.as<ir::CollectiveKernel>();
    return k != nullptr && ir::row_of(k->kind).point_to_point;
  });
}

}  // namespace braid::analysis
