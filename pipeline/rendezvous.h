// The execution of a lowered schedule in which everything happens as early as possible (deadlock_proof.h).
#pragma once

#include <vector>

#include "pipeline/channel_layout.h"
#include "pipeline/deadlock_proof.h"
#include "pipeline/transfers.h"

namespace braid::pipeline {

class Rendezvous {
 public:
  Rendezvous(const Schedule& schedule, const ChannelLayout& layout, int buffered);

  // Returns the order in which messages pass (Certificate::order). Afterwards all ranks are at the end of
  // their rows, or nothing can move.
  std::vector<Action> run();

  bool finished() const;
  // After run(): where each rank and queue stopped.
  std::size_t position(int rank) const { return ranks_[static_cast<std::size_t>(rank)].position; }
  std::vector<Action> front(int queue) const;  // its incomplete transfers at the front; empty if the queue is
  bool through(Action transfer) const { return (through_[index(transfer)] & bit(transfer.kind)) != 0; }
  // Whether everything posted into its queue together with it has passed.
  bool complete(Action transfer) const { return (complete_[index(transfer)] & bit(transfer.kind)) != 0; }

 private:
  using Item = std::int32_t;
  static constexpr Item kNone = -1;

  struct Queue {
    Item front = kNone, last = kNone;  // first items of groups
  };
  struct Rank {
    std::size_t position = 0;
    Item awaits = kNone;  // what the cell at `position` waits for: a RECV, or a WAIT_SEND's SEND
  };
  struct Group {  // with BATCH_P2P: transfers posted together into one queue
    Item next_member = kNone;
    Item first = kNone;
    std::int32_t left = 0;  // in the first member: how many have not passed
  };

  // Transfers as numbers that decode without a division: stage, micro-batch, kind.
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
  bool waits_ = false;    // there is a WAIT_SEND, so completion of SENDs matters
  std::vector<Rank> ranks_;
  std::vector<Queue> queues_;
  std::vector<Item> next_;                   // per item: the first item of the next group in its queue
  std::vector<Group> groups_;                // per item; empty without BATCH_P2P
  std::vector<std::int32_t> under_way_;      // per connection
  std::vector<KindSet> through_, complete_;  // per (stage, micro-batch)
  std::vector<Item> attempts_;
  std::vector<std::size_t> todo_;
  std::vector<Action> order_;
};

// A shortest cycle among the fronts of the queues and the ranks' positions in their rows.
std::vector<BlockedAction> shortest_cycle(const Schedule& schedule, const ChannelLayout& layout,
                                          ChannelPolicy policy, const Rendezvous& stuck);

}  // namespace braid::pipeline
