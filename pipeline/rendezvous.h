// One execution of a lowered schedule in which everything happens as soon as it can (deadlock_proof.h).
#pragma once

#include <vector>

#include "pipeline/channel_layout.h"
#include "pipeline/deadlock_proof.h"
#include "pipeline/transfers.h"

namespace braid::pipeline {

class Rendezvous {
 public:
  Rendezvous(const Schedule& schedule, const ChannelLayout& layout, int buffered);

  // The order in which messages pass (Certificate::order). All ranks are at their ends, or nothing can move.
  std::vector<Action> run();

  bool finished() const;
  // After run, of what did not finish.
  std::size_t position(int rank) const { return ranks_[static_cast<std::size_t>(rank)].position; }
  std::vector<Action> front(int queue) const;  // its transfers that are not through, none when it is empty
  bool through(Action transfer) const { return (through_[index(transfer)] & bit(transfer.kind)) != 0; }
  // All that was posted into its queue together with it is through.
  bool complete(Action transfer) const { return (complete_[index(transfer)] & bit(transfer.kind)) != 0; }

 private:
  using Item = std::int32_t;
  static constexpr Item kNone = -1;

  struct Queue {
    Item front = kNone, last = kNone;  // first items of groups
  };
  struct Rank {
    std::size_t position = 0;
    Item awaits = kNone;  // what has to be complete for the cell at `position`: a RECV, or a WAIT_SEND's SEND
  };
  struct Group {  // with BATCH_P2P: what was posted together into one queue
    Item next_member = kNone;
    Item first = kNone;
    std::int32_t left = 0;  // at the first: members that are not through
  };

  // Transfers as numbers that come apart without a division: stage, micro-batch, kind.
  static constexpr auto kFirstKind = static_cast<unsigned>(ActionKind::send_forward);
  std::size_t index(Action t) const {
    return static_cast<std::size_t>(t.stage) << shift_ | static_cast<std::size_t>(t.microbatch);
  }
  Item item(Action t) const {
    return static_cast<Item>(4 * index(t) + static_cast<std::size_t>(t.kind) - kFirstKind);
  }
  Action action(Item i) const {
    const auto u = static_cast<std::uint32_t>(i);
    return {static_cast<ActionKind>(kFirstKind + (u & 3)), static_cast<std::int32_t>(u >> (shift_ + 2)),
            static_cast<std::int32_t>(u >> 2 & ((1U << shift_) - 1))};
  }
  Queue& queue_of(Action t) { return queues_[static_cast<std::size_t>(layout_.queue_of(t))]; }
  const Queue& queue_of(Action t) const { return queues_[static_cast<std::size_t>(layout_.queue_of(t))]; }
  std::int32_t& under_way(Action t) { return under_way_[static_cast<std::size_t>(layout_.connection_of(t))]; }

  void advance(std::size_t rank);
  Item awaited(std::span<const Action> cell) const;
  void post(std::span<const Action> together);
  void enqueue(Queue& queue, Item first);
  bool at_front(Action t) const;
  void attempt(Action t);
  bool stands_behind_its_batch(Action t) const;
  void attempt_front(const Queue& queue);
  void pass(Action t);
  void completed(Action t);
  void drain();

  const Schedule& s_;
  const ChannelLayout& layout_;
  const std::int32_t buffered_;
  unsigned shift_ = 0;    // bits of a micro-batch
  bool batched_ = false;  // there is a BATCH_P2P
  bool waits_ = false;    // there is a WAIT_SEND: somebody asks whether SENDs are complete
  std::vector<Rank> ranks_;
  std::vector<Queue> queues_;
  std::vector<Item> next_;                   // per item: the first item of what follows in its queue
  std::vector<Group> groups_;                // per item; empty without BATCH_P2P
  std::vector<std::int32_t> under_way_;      // per connection
  std::vector<KindSet> through_, complete_;  // per (stage, micro-batch)
  std::vector<Item> attempts_;
  std::vector<std::size_t> todo_;
  std::vector<Action> order_;
};

// The shortest cycle among what stands at the front of each queue and where each rank stands in its row.
std::vector<BlockedAction> shortest_cycle(const Schedule& schedule, const ChannelLayout& layout,
                                          ChannelPolicy policy, const Rendezvous& stuck);

}  // namespace braid::pipeline
