// Event simulation of one rank of a program whose ranks all do the same: a compute stream and the channels.
//
//   * The compute stream takes the steps of the nodes in order. A start is issued when the stream reaches
//     it and costs the stream nothing; a wait blocks the stream until its collective is complete; a
//     blocking start waits by itself.
//   * A channel runs its collectives one after the other, in the order of issue. Channels run side by side;
//     the collectives at the heads of k channels of one fabric each go at 1/k of their speed.
//   * Contention: while any collective is in flight, a compute step takes `slowdown` times as long; while
//     the compute stream computes, a collective takes its `slowdown` times as long (times k, as above).
//   * Time goes by as in analysis/costs/event_engine.h, which the pipeline simulator shares.
//   * Exposure: while the stream is blocked in the wait for a collective, time is charged to what is being
//     transferred and holds that collective up: in equal parts to the head of its channel and to the heads
//     of other channels that share a fabric with it; picoseconds that are left over one by one, in the order
//     in which they began. What is in flight after the last step is charged as in a wait for the collective
//     that ends last. So the charges add up to the time blocked, and none exceeds the time that its
//     collective spends at the head of its channel.
//   * Exact in whole picoseconds; the state after a prefix depends on the prefix only.
#pragma once

#include <array>
#include <vector>

#include "analysis/costs/event_engine.h"
#include "analysis/problem.h"

namespace braid::analysis {

struct Timeline;

// A prefix of an order. A value: copies are independent (O(collectives in flight + channels) large; assigning
// to an existing one reuses its memory).
class Simulator {
 public:
  explicit Simulator(const Problem& problem);  // which must outlive it
  // Runs the steps of a node.
  void append(NodeId node);
  // When the compute stream is free again, and when all that was issued is complete, if nothing more comes.
  Time now() const { return engine_.now(); }
  Time finish() const;
  // Time that the compute stream was blocked so far.
  Time blocked() const { return blocked_; }
  // The collective is complete at now(). It must have been issued.
  bool complete(CollectiveId collective) const { return !is_in_flight(collective); }
  // Issued and not complete.
  int in_flight() const { return in_flight_; }
  // The same collectives are in flight with the same work left: whatever comes next takes the same time.
  bool same_in_flight(const Simulator& other) const;
  // What a channel still has to do: the work of what is in flight on it, if nothing slows it down.
  Time backlog(ChannelId channel) const;
  // visit(collective, Time): each one in flight, and the work of its channel until it is complete.
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
  // Those at work now that hold up a collective in flight, in the order of their begin.
  std::vector<CollectiveId> holding_up(CollectiveId collective) const;
  // While the compute stream is blocked, or computes.
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
  CollectiveId last_in_flight() const;  // the one that ends last if nothing more comes, if any is in flight
  void issue(CollectiveId collective);
  void begin(CollectiveId collective);
  // Time goes by until a head is complete, but no longer than `at_most`; returns how much. Sets `complete`
  // if `collective` was one of those that are complete.
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
  Time blocked;             // time that the compute stream stood in its wait, or in itself if it is blocking
  Time exposed;             // what it is charged of the time that the stream stood in any wait
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
