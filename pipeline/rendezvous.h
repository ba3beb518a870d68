// The execution of a lowered schedule in which everything happens as early as possible (deadlock_proof.h).
#pragma once

#include <span>
#include <vector>

#include "pipeline/channel_layout.h"
#include "pipeline/deadlock_proof.h"
#include "pipeline/transfers.h"

namespace braid::pipeline {

class Rendezvous {
 public:
  Rendezvous(const PipelineSchedule& schedule, const ChannelLayout& layout, int buffered);

  // Returns the order in which messages pass (Certificate::order). Afterwards all ranks are at the end of
  // their rows, or nothing can move.
  std::vector<Action> run();

  bool finished() const;
  // After run(): where each rank and queue stopped.
  std::size_t position(int rank) const { return ranks_[rank].position; }
  std::vector<Action> front(QueueId queue) const;  // its incomplete transfers at the front
  bool through(Action transfer) const { return (through_[index(transfer)] & bit(transfer.kind)) != 0; }
  // Whether everything posted into its queue together with it has passed.
  bool complete(Action transfer) const { return (complete_[index(transfer)] & bit(transfer.kind)) != 0; }

 private:
  using Item = ir::Id<struct ItemTag>;  // a transfer

  struct Queue {
    Item front, last;  // first items of groups
  };
  struct Rank {
    std::size_t position = 0;
    Item awaits;  // what the cell at `position` waits for: a RECV, or a WAIT_SEND's SEND
  };
  struct Group {  // with BATCH_P2P: transfers posted together into one queue
    Item next_member;
    Item first;
    int left = 0;  // in the first member: how many have not passed
  };

  // Numbers that decode without a division: stage, micro-batch; for items also the kind.
  int index(Action t) const { return t.stage << shift_ | t.microbatch; }
  Item item(Action t) const { return {4 * index(t) + transfer_index(t.kind)}; }
  Action action(Item i) const {
    return {transfer_kind(i.index & 3), i.index >> (shift_ + 2), i.index >> 2 & ((1 << shift_) - 1)};
  }
  Item next_member(Item i) const { return batched_ ? groups_[i].next_member : Item{}; }
  Queue& queue_of(Action t) { return queues_[layout_.queue_of(t)]; }
  const Queue& queue_of(Action t) const { return queues_[layout_.queue_of(t)]; }
  int& under_way(Action t) { return under_way_[layout_.connection_of(t)]; }

  void advance(int rank);
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

  const PipelineSchedule& s_;
  const ChannelLayout& layout_;
  const int buffered_;
  int shift_ = 0;         // bits of a micro-batch
  bool batched_ = false;  // there is a BATCH_P2P
  bool waits_ = false;    // there is a WAIT_SEND, so completion of SENDs matters
  PerRank<Rank> ranks_;
  IdVector<QueueId, Queue> queues_;
  IdVector<Item, Item> next_;     // the first item of the next group in the queue
  IdVector<Item, Group> groups_;  // empty without BATCH_P2P
  IdVector<ConnectionId, int> under_way_;
  IdVector<int, KindSet> through_, complete_;  // by index()
  std::vector<Item> attempts_;
  std::vector<int> todo_;  // ranks
  std::vector<Action> order_;
};

// A shortest cycle among the fronts of the queues and the ranks' positions in their rows.
std::vector<BlockedAction> shortest_cycle(const PipelineSchedule& schedule, const ChannelLayout& layout,
                                          QueuePolicy policy, const Rendezvous& stuck);

}  // namespace braid::pipeline
