// The scheduling problem behind a schedule: flat arrays of nodes, their steps, dependencies and costs.
// Everything that decides about an order (simulator, bounds, passes) works on this, never on the graph.
//
//   node        one top-level ScheduleNode; its index is that in Schedule::nodes. An order is a permutation
//               of the nodes.
//   step        a part of a node; steps run in order. Most nodes have one, a group has one per member kernel,
//               and a start, wait or release whose call costs something has a compute step before its own.
//   collective  a start and its wait (none if it is blocking) on one channel.
//   channel     a queue of collectives that run one after another: one per communicator, or by the channel
//               policy (pair and edge: one per pair of ranks, or directed edge, for send and recv).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/costs/cost_model.h"
#include "analysis/costs/time.h"
#include "analysis/ids.h"
#include "ir/dependencies.h"
#include "ir/schedule.h"

namespace braid::analysis {

struct Step {
  enum class Kind : std::uint8_t { compute, start, wait, release };
  Kind kind = Kind::compute;
  bool blocking = false;     // start: the compute stream blocks until it is complete
  CollectiveId collective;   // start, wait, release
  Time work;                 // compute: alone on the machine; others: 0
  Permille slowdown = 1000;  // compute: while a collective is in flight
};

struct Collective {
  ir::OpId op;                  // the start
  NodeId start, wait, release;  // wait and release are invalid if there are none
  ChannelId channel{0};
  CollectiveCost cost;
  // The least cost of a chain through it, however it is split: the floor of its smallest tensor. 0 if it can
  // be cut (an all-reduce, a broadcast) and some operation touches a part of it, or several collectives touch
  // it.
  Time smallest_floor;
};

struct Problem {
  IdVector<StepId, Step> steps;                       // those of a node are contiguous
  IdVector<NodeId, StepId> first_step = {StepId{0}};  // and the end of the last node
  IdVector<CollectiveId, Collective> collectives;     // in input order of their starts
  int channels = 0;
  int fabrics = 1;
  // Direct predecessors and successors, ascending, without repetition.
  IdLists<NodeId, NodeId> preds, succs;

  int size() const { return first_step.end_id().index - 1; }
  IdRange<NodeId> nodes() const { return first_ids<NodeId>(size()); }
  IdRange<ChannelId> channel_ids() const { return first_ids<ChannelId>(channels); }
  IdRange<StepId> step_ids(NodeId n) const { return {first_step[n], first_step[n + 1]}; }
  std::span<const Step> steps_of(NodeId n) const { return steps.slice(first_step[n], first_step[n + 1]); }
  std::span<const NodeId> predecessors(NodeId n) const { return preds[n]; }
  std::span<const NodeId> successors(NodeId n) const { return succs[n]; }
  // The compute time of a node, without contention, and the collective that it starts or waits for, if any
  // (the first one of a group).
  Time compute_time(NodeId n) const;
  CollectiveId started_by(NodeId n) const;
  CollectiveId waited_by(NodeId n) const;
};

struct ProblemOptions {
  // Keeps the order of collectives that the channel policy requires (weak dependencies between them). Without
  // it they may change places, for passes that may reorder them; a FIFO still completes in the order of
  // issue.
  bool channel_order = true;
};
Problem make_problem(const ir::Schedule& schedule, const CostModel& costs,
                     const ProblemOptions& options = {});
Problem make_problem(const ir::Schedule& schedule, const ir::Dependencies& deps, const CostModel& costs);
// Makes the problem of a schedule whose order is fixed: each node depends on the one before it. For measuring
// and simulating; finding dependencies is most of the cost of make_problem().
Problem make_fixed_problem(const ir::Schedule& schedule, const CostModel& costs);

// Returns the problem of the same nodes in another order that keeps all dependencies: node k is the former
// node order[k].
Problem permuted(const Problem& problem, OrderView order);

// Puts the nodes of the schedule into this order and, unless it is the identity, drops the memory plan.
// Returns whether the schedule changed.
bool apply_order(ir::Schedule& schedule, OrderView order);

}  // namespace braid::analysis
