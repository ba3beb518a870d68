// The indices of a scheduling problem.
#pragma once

#include "ir/id_vector.h"
#include "ir/schedule.h"

namespace braid::analysis {

using ir::at;
using ir::count_of;
using ir::first_ids;
using ir::IdLists;
using ir::IdRange;
using ir::IdSpan;
using ir::IdVector;

using NodeId = ir::Id<struct NodeTag>;              // Schedule::nodes; nodes of a Problem
using StepId = ir::Id<struct StepTag>;              // Problem::steps
using CollectiveId = ir::Id<struct CollectiveTag>;  // Problem::collectives
using ChannelId = ir::Id<struct ChannelTag>;
using TenantId = ir::Id<struct TenantTag>;    // MemoryModel::tenants(), LiveBytes::tenants()
using Position = ir::Id<struct PositionTag>;  // in an order of the nodes

inline IdRange<NodeId> nodes_of(const ir::Schedule& schedule) {
  return first_ids<NodeId>(count_of(schedule.nodes));
}

// A permutation of the nodes.
using Order = IdVector<Position, NodeId>;
using OrderView = IdSpan<Position, const NodeId>;
// The order 0, 1, 2, ...
Order identity_order(IdRange<NodeId> nodes);
inline Order identity_order(int nodes) { return identity_order(first_ids<NodeId>(nodes)); }
// Where each node stands.
IdVector<NodeId, Position> positions_of(OrderView order);

}  // namespace braid::analysis
