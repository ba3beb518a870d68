// Holds a printed reason (explain/order_limits.h) against the simulator, place by place and with
// nothing of the code that found it: slow and plain.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analysis/memory_model.h"
#include "analysis/problem.h"
#include "analysis/report.h"
#include "analysis/simulator.h"
#include "ir/dependencies.h"
#include "ir/schedule.h"

namespace braid::test {

class LimitOracle {
 public:
  LimitOracle(const ir::Schedule& schedule, const analysis::CostModel& costs,
              const analysis::Freedom& freedom);

  // Why the claim about a collective (in the order of the starts) is false; empty: it holds.
  std::string refute(analysis::CollectiveId collective, const analysis::Limit& limit) const;
  // The claim holds, but so would one about something else that ends at the same moment.
  bool tied(analysis::CollectiveId collective) const;

 private:
  using NodeId = analysis::NodeId;
  using CollectiveId = analysis::CollectiveId;
  using Order = analysis::Order;
  struct Better {
    analysis::Time makespan;
    std::int64_t over;  // bytes above the caps
    analysis::Position step;
  };
  std::set<NodeId> ancestors(NodeId node, bool orders) const;
  std::set<NodeId> descendants(NodeId node) const;
  bool takes_time(NodeId node) const;
  std::optional<Order> up(NodeId start, NodeId place, bool orders) const;
  std::optional<Order> down(NodeId wait, NodeId place) const;
  Order moved_behind(const std::set<NodeId>& nodes, NodeId place) const;
  std::vector<Better> better(CollectiveId collective) const;
  // The earliest begin of its transfer at any place of its start from one on.
  analysis::Time earliest(const analysis::Problem& problem, CollectiveId collective, bool orders,
                          NodeId first_place = {0}) const;
  std::string refute_start(CollectiveId collective, const analysis::Limit& limit) const;
  std::string refute_ungrouped(CollectiveId collective, const analysis::Limit& limit) const;
  std::string refute_wait(CollectiveId collective, const analysis::Limit& limit) const;
  NodeId node_named(const std::string& name) const;
  bool is_grouped(NodeId node) const;

  const ir::Schedule& schedule_;
  const analysis::CostModel& costs_;
  const analysis::Freedom freedom_;
  const ir::Dependencies deps_;
  const analysis::Problem p_;
  const Order in_order_;
  const analysis::Timeline t_;
  const analysis::MemoryModel memory_;
};

}  // namespace braid::test
