// The scheduling problem and the memory model of a schedule, kept from one reordering pass to the next.
//
// Finding them is most of what such a pass costs, and a pass that only moves nodes changes neither: they are
// numbered anew.
#pragma once

#include <memory>
#include <utility>

#include "analysis/memory_model.h"
#include "analysis/problem.h"

namespace braid::analysis {

class OrderAnalysis {
 public:
  OrderAnalysis(const ir::Schedule& schedule, std::shared_ptr<const CostModel> costs,
                const ProblemOptions& options);

  Problem problem;
  MemoryModel memory;

  // Is it that of this schedule? Compares nodes and their order, the channel policy and the costs, not what
  // operations do: whoever changes operations in place drops it (the runner does, after passes that changed
  // something).
  bool describes(const ir::Schedule& schedule, const CostModel& costs, const ProblemOptions& options) const;
  // Of the same nodes in this order, which keeps all dependencies.
  std::shared_ptr<const OrderAnalysis> in_order(OrderView order) const;

 private:
  OrderAnalysis(Problem p, MemoryModel m) : problem(std::move(p)), memory(std::move(m)) {}
  std::shared_ptr<const CostModel> costs_;
  std::shared_ptr<const void> graph_;  // keeps its identity from being used again
  ir::ChannelPolicy channels_ = ir::ChannelPolicy::global;
  bool channel_order_ = true;
  IdLists<NodeId, ir::OpId> ops_;
};

// Do programs like this one have sends or receives? Their ranks may run different orders, and a send meets
// its receive only in the order agreed upon: passes keep the order of collectives.
bool has_point_to_point(const ir::Schedule& schedule);

}  // namespace braid::analysis
