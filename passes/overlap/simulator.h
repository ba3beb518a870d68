// Event simulation of one rank of a program whose ranks all do the same: a compute stream and the channels.
//
//   * The compute stream takes the steps of the nodes in order. A start is issued when the stream reaches it and costs
//     the stream nothing; a wait blocks the stream until its collective is complete; a blocking start waits by itself.
//   * A channel runs its collectives one after the other, in the order of issue. Channels run side by side; the
//     collectives at the heads of k channels of one fabric each go at 1/k of their speed.
//   * Contention: while any collective is in flight, a compute step takes `slowdown` times as long; while the compute
//     stream computes, a collective takes its `slowdown` times as long (times k, as above).
//   * Exact in whole picoseconds; the state after a prefix depends on the prefix only.
#pragma once

#include <span>
#include <vector>

#include "passes/overlap/problem.h"

namespace braid::passes {

// A prefix of an order. A value: copies are independent (O(collectives in flight) large).
class Simulator {
 public:
  explicit Simulator(const Problem& problem);
  // Runs the steps of a node.
  void append(int node);
  // When the compute stream is free again, and when all that was issued is complete, if nothing more comes.
  Time now() const { return now_; }
  Time finish() const;
  // Time that the compute stream was blocked so far.
  Time blocked() const { return blocked_; }
  // The collective is complete at now().
  bool complete(int collective) const;
  // Issued and not complete.
  int in_flight() const;

 private:
  // The author of simulator.cc decides what stands here.
  const Problem* problem_;
  Time now_, blocked_;
};

struct Interval {
  Time begin, end;
};
struct CollectiveTimes {
  Time issued, begin, end;  // begin: reached the head of its channel
  Time exposed;             // time that the compute stream was blocked in its wait, or in itself if it is blocking
};
struct Timeline {
  Time makespan;
  Time compute;  // sum of the compute intervals, contention included
  Time exposed;  // sum over the collectives, plus what is in flight after the last step
  std::vector<Interval> steps;              // per step of the problem
  std::vector<CollectiveTimes> collectives;
};
// `order`: a permutation of the nodes that keeps all dependencies.
Time simulate_makespan(const Problem& problem, std::span<const int> order);
Timeline simulate(const Problem& problem, std::span<const int> order);

}  // namespace braid::passes
