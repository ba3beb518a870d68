#include "analysis/order_analysis.h"

#include <algorithm>

#include "ir/collective_table.h"

namespace braid::analysis {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

OrderAnalysis::OrderAnalysis(const ir::Schedule& schedule, std::shared_ptr<const CostModel> costs,
                             const ProblemOptions& options)
    : problem(make_problem(schedule, *costs, options)),
      memory(schedule),
      costs_(std::move(costs)),
      graph_(schedule.graph.pool),
      channels_(schedule.channels),
      channel_order_(options.channel_order) {
  for (const ir::ScheduleNode& node : schedule.nodes) {
    first_op_.push_back(ops_.size());
    const std::vector<ir::OpId> ops = ir::ops_of(node);
    ops_.insert(ops_.end(), ops.begin(), ops.end());
  }
  first_op_.push_back(ops_.size());
}

bool OrderAnalysis::describes(const ir::Schedule& schedule, const CostModel& costs,
                              const ProblemOptions& options) const {
  if (&costs != costs_.get() || schedule.graph.pool != graph_ || schedule.channels != channels_ ||
      options.channel_order != channel_order_ || schedule.nodes.size() + 1 != first_op_.size()) {
    return false;
  }
  for (std::size_t n = 0; n < schedule.nodes.size(); ++n) {
    const ir::ScheduleNode& node = schedule.nodes[n];
    const std::size_t first = first_op_[n], count = first_op_[n + 1] - first;
    if (node.kind == ir::ScheduleNode::Kind::single) {
      if (count != 1 || ops_[first] != node.op) return false;
    } else {
      const std::vector<ir::OpId> ops = ir::ops_of(node);
      if (!std::equal(ops.begin(), ops.end(), ops_.begin() + static_cast<std::ptrdiff_t>(first),
                      ops_.begin() + static_cast<std::ptrdiff_t>(first + count))) {
        return false;
      }
    }
  }
  return true;
}

std::shared_ptr<const OrderAnalysis> OrderAnalysis::in_order(std::span<const int> order) const {
  std::shared_ptr<OrderAnalysis> out(new OrderAnalysis(permuted(problem, order), memory.permuted(order)));
  out->costs_ = costs_;
  out->graph_ = graph_;
  out->channels_ = channels_;
  out->channel_order_ = channel_order_;
  for (int n : order) {
    out->first_op_.push_back(out->ops_.size());
    out->ops_.insert(out->ops_.end(), ops_.begin() + static_cast<std::ptrdiff_t>(first_op_[at(n)]),
                     ops_.begin() + static_cast<std::ptrdiff_t>(first_op_[at(n) + 1]));
  }
  out->first_op_.push_back(out->ops_.size());
  return out;
}

bool has_point_to_point(const ir::Schedule& schedule) {
  return std::ranges::any_of(schedule.graph.ops, [](const ir::Operation& op) {
    const auto* k = op.as<ir::CollectiveKernel>();
    return k != nullptr && ir::row_of(k->kind).point_to_point;
  });
}

}  // namespace braid::analysis
