// The scheduling problem and the memory model of a schedule, kept from one reordering pass to the next.
//
// Computing them is most of the cost of such a pass. A pass that only moves nodes changes neither, so they
// are only renumbered.
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

  // Whether this is the analysis of the schedule. Compares nodes and their order, the channel policy and the
  // costs, but not the operations: a caller that changes operations in place drops the analysis (the runner
  // does so after passes that changed something).
  bool describes(const ir::Schedule& schedule, const CostModel& costs, const ProblemOptions& options) const;
  // Returns the analysis of the same nodes in this order, which must keep all dependencies.
  std::shared_ptr<const OrderAnalysis> in_order(OrderView order) const;

 private:
  OrderAnalysis(Problem p, MemoryModel m) : problem(std::move(p)), memory(std::move(m)) {}
  std::shared_ptr<const CostModel> costs_;
  std::shared_ptr<const void> graph_;  // kept alive, so that no other graph gets its address
  ir::ChannelPolicy channels_ = ir::ChannelPolicy::global;
  bool channel_order_ = true;
  IdLists<NodeId, ir::OpId> ops_;
};

// Whether the program has sends or receives. Then its ranks may run different orders, and a send meets its
// receive only in the agreed order, so passes keep the order of collectives.
bool has_point_to_point(const ir::Schedule& schedule);

}  // namespace braid::analysis
