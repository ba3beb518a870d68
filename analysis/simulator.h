// Event simulation of one rank of a program whose ranks all do the same: a compute stream and the channels.
//
//   * The compute stream takes the steps of the nodes in order. A start is issued when the stream reaches
//     it and takes no time; a wait blocks the stream until its collective is complete; a blocking start
//     also blocks it.
//   * A channel runs its collectives one after another, in the order of issue. Channels are concurrent; the
//     collectives at the heads of k channels of one fabric each run at 1/k of their speed.
//   * Contention: while any collective is in flight, a compute step takes `slowdown` times as long; while
//     the compute stream computes, a collective takes its `slowdown` times as long (times k, as above).
//   * Time advances as in analysis/costs/event_engine.h, which the pipeline simulator shares.
//   * Exposure: while the stream waits for a collective, the time is charged to the transfers that hold that
//     collective up: in equal parts to the head of its channel and to the heads of other channels that share
//     a fabric with it; the remaining picoseconds go one by one to them in the order in which they began.
//     Collectives in flight after the last step are charged as in a wait for the one that ends last. So the
//     charges add up to the time blocked, and none exceeds the time that its collective spends at the head of
//     its channel.
//   * Exact in whole picoseconds; the state after a prefix depends on the prefix only.
#pragma once

#include <array>
#include <vector>

#include "analysis/costs/event_engine.h"
#include "analysis/problem.h"

namespace braid::analysis {

struct Timeline;

// The state after a prefix of an order. A value: copies are independent, of size O(collectives in flight +
// channels); assigning to an existing one reuses its memory.
class Simulator {
 public:
  explicit Simulator(const Problem& problem);  // which must outlive it
  // Runs the steps of a node.
  void append(NodeId node);
  // When the compute stream is free again, and when everything issued is complete, if nothing more is
  // appended.
  Time now() const { return engine_.now(); }
  Time finish() const;
  // Time that the compute stream was blocked so far.
  Time blocked() const { return blocked_; }
  // Whether the collective, which must have been issued, is complete at now().
  bool complete(CollectiveId collective) const { return !is_in_flight(collective); }
  // The number of collectives that are issued and not complete.
  int in_flight() const { return in_flight_; }
  // Whether the same collectives are in flight with the same work left, so that the same steps take equally
  // long.
  bool same_in_flight(const Simulator& other) const;
  // The work left of the collectives in flight on a channel, if nothing slows them down.
  Time backlog(ChannelId channel) const;
  // visit(collective, Time): each one in flight, and the work of its channel up to its completion.
  template <class Visit>
  void each_in_flight(Visit visit) const {
    for (const auto& h : engine_.running()) {
      Time until{h.remaining};
      visit(h.collective, until);
      for (EntryId q = queues_[h.channel].first; q.valid(); q = pool_[q].next) {
        const CollectiveId c = pool_[q].collective;
        visit(c, until += problem_->collectives[c].cost.time);
      }
    }
  }

 private:
  friend Time simulate_makespan(const Problem&, OrderView);
  friend Timeline simulate(const Problem&, OrderView);
  struct Recorder;  // of a whole simulation

  // A collective at the head of its channel, at work on its fabric.
  struct Head {
    CollectiveId collective;
    ChannelId channel;
    std::array<std::int32_t, 1> resources;  // its fabric
    Permille slowdown;
    std::int64_t remaining;  // ps of work
  };
  // The running collectives that hold up a collective in flight, in the order of their begin.
  std::vector<CollectiveId> holding_up(CollectiveId collective) const;
  // Factors while the compute stream is blocked, and while it computes.
  static std::int64_t alone(const Head&, int sharers) { return sharers * std::int64_t{1000}; }
  static std::int64_t beside_compute(const Head& head, int sharers) {
    return sharers * std::int64_t{head.slowdown};
  }
  // Collectives behind the heads: one list per channel in a common pool.
  using EntryId = ir::Id<struct EntryTag>;  // pool_
  struct Queued {
    CollectiveId collective;
    EntryId next;
  };
  struct Queue {
    EntryId first, last;
  };

  bool is_in_flight(CollectiveId collective) const;
  void compute(const Step& step);
  void block_until_complete(CollectiveId collective);
  CollectiveId last_in_flight() const;  // the one in flight that ends last; invalid if there is none
  void issue(CollectiveId collective);
  void begin(CollectiveId collective);
  // Advances until a head is complete, but by at most `at_most`; returns by how much. Sets `complete` if
  // `collective` was among those that completed.
  template <class Factor>
  Time advance(Time at_most, const Factor& factor, CollectiveId collective = {}, bool* complete = nullptr);
  void drain();

  const Problem* problem_;
  EventEngine<Head> engine_;
  Time blocked_;
  int in_flight_ = 0;
  IdVector<ChannelId, Queue> queues_;
  IdVector<EntryId, Queued> pool_;
  EntryId free_;  // list of unused entries of pool_
  Recorder* recorder_ = nullptr;
};

struct Interval {
  Time begin, end;
};
struct CollectiveTimes {
  Time issued, begin, end;  // begin: reached the head of its channel
  Time blocked;             // time that the compute stream is blocked in its wait (or blocking start)
  Time exposed;             // its share of the time that the stream is blocked in any wait
};
struct Timeline {
  Time makespan;
  Time compute;  // sum of the compute intervals, contention included
  Time exposed;  // blocked in waits, or in flight after the last step: the sum over the collectives
  IdVector<StepId, Interval> steps;
  IdVector<CollectiveId, CollectiveTimes> collectives;
};
// `order`: a permutation of the nodes that keeps all dependencies.
Time simulate_makespan(const Problem& problem, OrderView order);
Timeline simulate(const Problem& problem, OrderView order);

}  // namespace braid::analysis
