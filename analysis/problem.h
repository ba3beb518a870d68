// The scheduling problem behind a schedule: flat arrays of nodes, their steps, dependencies and costs.
// Everything that decides about an order (simulator, bounds, passes) works on this and never on the graph.
//
//   node        one top-level ScheduleNode; its index is that in Schedule::nodes. An order is a permutation
//               of them.
//   step        what a node does, in order: most nodes have one step, a group has one per member kernel, and
//               a start, wait or release whose call costs something has a compute step before its own.
//   collective  a start and its wait (none if it is blocking) on one channel.
//   channel     a queue of collectives that run one after the other: one per communicator, or as the channel
//               policy says (pair and edge: one per pair of ranks, or directed edge, for send and recv).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/costs/cost_model.h"
#include "analysis/costs/time.h"
#include "ir/dependencies.h"
#include "ir/schedule.h"

namespace braid::analysis {

struct Step {
  enum class Kind : std::uint8_t { compute, start, wait, release };
  Kind kind = Kind::compute;
  bool blocking = false;     // start: the compute stream stands still until it is complete
  int collective = -1;       // start, wait, release: into Problem::collectives
  Time work;                 // compute: alone on the machine; others: 0
  Permille slowdown = 1000;  // compute: while a collective is in flight
};

struct Collective {
  ir::OpId op;     // the start
  int start = -1;  // nodes; wait and release are -1 if there are none
  int wait = -1;
  int release = -1;
  int channel = 0;
  CollectiveCost cost;
  // What a chain through it costs at least, however it is split: the floor of its smallest tensor, and
  // nothing where that can be cut (an all-reduce, a broadcast) and somebody touches a part of it.
  Time smallest_floor;
};

struct Problem {
  // Steps of node n: steps[first_step[n]] .. steps[first_step[n + 1]]
  std::vector<int> first_step = {0};
  std::vector<Step> steps;
  std::vector<Collective> collectives;  // in input order of their starts
  int channels = 0;
  int fabrics = 1;
  // Direct predecessors and successors, ascending, without repetition.
  std::vector<int> first_pred = {0}, preds, first_succ = {0}, succs;

  int size() const { return static_cast<int>(first_step.size()) - 1; }
  std::span<const Step> steps_of(int n) const { return slice(steps, first_step, n); }
  std::span<const int> predecessors(int n) const { return slice(preds, first_pred, n); }
  std::span<const int> successors(int n) const { return slice(succs, first_succ, n); }
  // The compute time of a node, without contention; the collective that it starts or waits for, or -1 (the
  // first one of a group).
  Time compute_time(int n) const;
  int started_by(int n) const;
  int waited_by(int n) const;

 private:
  template <class T>
  static std::span<const T> slice(const std::vector<T>& all, const std::vector<int>& first, int n) {
    const auto k = static_cast<std::size_t>(n);
    return std::span<const T>(all).subspan(static_cast<std::size_t>(first[k]),
                                           static_cast<std::size_t>(first[k + 1] - first[k]));
  }
};

struct ProblemOptions {
  // Order of collectives as the channel policy asks for it (weak dependencies between them). Without: they
  // may change places, for passes that may reorder them; a FIFO still completes in the order of issue.
  bool channel_order = true;
};
Problem make_problem(const ir::Schedule& schedule, const CostModel& costs,
                     const ProblemOptions& options = {});
Problem make_problem(const ir::Schedule& schedule, const ir::Dependencies& deps, const CostModel& costs);
// Of a schedule whose order stays as it is: each node depends on the one before it. For measuring and
// simulating; finding dependencies is most of what make_problem() costs.
Problem make_fixed_problem(const ir::Schedule& schedule, const CostModel& costs);

// The problem of the same nodes in another order, which keeps all dependencies: node k is what node order[k]
// was.
Problem permuted(const Problem& problem, std::span<const int> order);

// The order 0, 1, 2, ...
std::vector<int> identity_order(int nodes);
// Puts the nodes of the schedule into this order and drops the memory plan, if it is not the identity. True
// if it changed.
bool apply_order(ir::Schedule& schedule, std::span<const int> order);

}  // namespace braid::analysis
