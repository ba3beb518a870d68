// The transfers of a schedule during simulation: which are posted, which may begin, which have arrived.
//
// A SEND meets its RECV through the queues of the channel policy (channels.h): a transfer begins when both
// are posted and at the heads of their queues, which it occupies until it is complete. With K buffered
// messages, a SEND begins without its RECV while fewer than K messages of its connection are unreceived; the
// RECV is complete when the message has arrived. Batched transfers are posted, and may begin, together; their
// messages are usable once all of the batch in one queue is complete.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pipeline/channel_layout.h"
#include "pipeline/queue_policy.h"
#include "pipeline/transfers.h"

namespace braid::pipeline {

constexpr std::int64_t kNotYet = -1;  // of a time in picoseconds

// Small members are defined here because calls between files of a shared library are never inlined.
class TransferQueues {
 public:
  struct Transfer {
    Action send;
    int from = 0, to = 0;                                                             // ranks
    std::int64_t sent = kNotYet, received = kNotYet, begin = kNotYet, end = kNotYet;  // ps
    bool delivered = false;                                                           // the RECV is complete
    bool usable = false;  // so is everything posted with the RECV into its queue
    bool left = false;    // the SEND and everything posted with it into its queue is complete

   private:
    friend class TransferQueues;
    QueueId send_queue, recv_queue;
    ConnectionId connection;
    int send_batch = 0, recv_batch = 0;
  };

  // Requires a valid schedule, which must outlive this object.
  TransferQueues(const PipelineSchedule& schedule, QueuePolicy policy);

  const IdVector<TransferId, Transfer>& transfers() const {
    return transfers_;
  }  // in the order they were named
  bool usable(Action send) const {
    const TransferId t = transfer_of_[message_of(s_, send)];
    return t.valid() && transfers_[t].usable;
  }
  bool left(Action send) const {
    const TransferId t = transfer_of_[message_of(s_, send)];
    return t.valid() && transfers_[t].left;
  }
  bool meets() const { return policy_.buffered == 0; }  // whether every SEND waits for its RECV
  const Transfer& of(Action posted_send) const {
    return transfers_[transfer_of_[message_of(s_, posted_send)]];
  }

  // Starts a new batch: what is posted until the next call belongs to it.
  void begin_batch() { ++batch_; }
  void post(Action transfer, std::int64_t now);
  // Begins a transfer outside the queues, for rows without SEND and RECV.
  TransferId send_by_itself(Action send, std::int64_t now);
  // Begins and delivers every transfer that may; calls begins(TransferId), which must not call back, for each
  // that begins. Returns whether anything moved.
  template <class Begins>
  bool settle(std::int64_t now, const Begins& begins) {
    bool moved = false;
    while (!touched_.empty()) {
      const QueueId q = touched_.back();
      touched_.pop_back();
      queues_[q].touched = false;
      moved |= look_at_head(q, now);
      for (const TransferId t : begun_) begins(t);
      begun_.clear();
    }
    return moved;
  }
  void end(TransferId transfer, std::int64_t now);

 private:
  // One end of a channel: the posted, incomplete transfers in order. Those of the first one's batch are at
  // the head.
  struct Queue {
    struct Entry {
      TransferId transfer;
      bool send;
    };
    std::vector<Entry> entries;
    std::size_t first = 0;
    bool touched = false;
  };

  Transfer& transfer(Action send);
  void touch(QueueId queue) {
    if (!queue.valid() || std::exchange(queues_[queue].touched, true)) return;
    touched_.push_back(queue);
  }
  int batch_of(const Queue::Entry& e) const {
    const Transfer& t = transfers_[e.transfer];
    return e.send ? t.send_batch : t.recv_batch;
  }
  bool complete(const Queue::Entry& e) const {
    const Transfer& t = transfers_[e.transfer];
    return e.send ? t.end != kNotYet : t.delivered;
  }
  bool at_head(QueueId queue, int batch) const {
    const Queue& q = queues_[queue];
    return q.first < q.entries.size() && batch_of(q.entries[q.first]) == batch;
  }
  bool leave_complete_batches(Queue& queue);
  bool look_at_head(QueueId queue, std::int64_t now);
  bool may_begin(const Transfer& t) const;
  void deliver(Transfer& t);
  const std::vector<QueueId>& senders_of(ConnectionId connection);

  const PipelineSchedule& s_;
  QueuePolicy policy_;
  ChannelLayout layout_;
  int batch_ = 0;
  IdVector<MessageId, TransferId> transfer_of_;
  IdVector<TransferId, Transfer> transfers_;
  IdVector<QueueId, Queue> queues_;
  std::vector<QueueId> touched_;
  std::vector<TransferId> begun_;
  IdVector<ConnectionId, int> outstanding_;               // transfers begun and not delivered
  IdVector<ConnectionId, std::vector<QueueId>> senders_;  // made on first use
};

}  // namespace braid::pipeline
