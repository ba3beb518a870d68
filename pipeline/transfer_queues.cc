#include "pipeline/transfer_queues.h"

#include <algorithm>

#include "pipeline/transfers.h"

namespace braid::pipeline {

TransferQueues::TransferQueues(const PipelineSchedule& schedule, QueuePolicy policy)
    : s_(schedule),
      policy_(policy),
      layout_(schedule, policy.kind),
      transfer_of_(messages(schedule)),
      queues_(layout_.queues()),
      outstanding_(layout_.connections().ids()) {}

TransferQueues::Transfer& TransferQueues::transfer(Action send) {
  TransferId& id = transfer_of_[message_of(s_, send)];
  if (!id.valid()) {
    id = transfers_.end_id();
    Transfer t;
    t.send = send;
    t.from = s_.rank_of_stage[send.stage];
    t.to = peer_of(s_, send);
    transfers_.push_back(t);
  }
  return transfers_[id];
}

void TransferQueues::post(Action a, std::int64_t now) {
  const bool send = is_send(a.kind);
  Transfer& t = transfer(send ? a : counterpart(a));
  const QueueId q = layout_.queue_of(a);
  (send ? t.sent : t.received) = now;
  (send ? t.send_batch : t.recv_batch) = batch_;
  (send ? t.send_queue : t.recv_queue) = q;
  t.connection = layout_.connection_of(a);
  queues_[q].entries.push_back({transfer_of_[message_of(s_, t.send)], send});
  touch(q);
}

TransferId TransferQueues::send_by_itself(Action send, std::int64_t now) {
  Transfer& t = transfer(send);
  t.sent = t.received = t.begin = now;
  return transfer_of_[message_of(s_, send)];
}

void TransferQueues::end(TransferId id, std::int64_t now) {
  Transfer& t = transfers_[id];
  t.end = now;
  touch(t.send_queue);
  touch(t.recv_queue);
  if (!t.connection.valid()) t.delivered = t.usable = true;
}

bool TransferQueues::leave_complete_batches(Queue& queue) {
  const std::size_t before = queue.first;
  while (queue.first < queue.entries.size()) {
    const int batch = batch_of(queue.entries[queue.first]);
    std::size_t end = queue.first;
    bool all = true;
    for (; end < queue.entries.size() && batch_of(queue.entries[end]) == batch; ++end) {
      all &= complete(queue.entries[end]);
    }
    if (!all) break;
    for (; queue.first < end; ++queue.first) {
      const Queue::Entry& e = queue.entries[queue.first];
      Transfer& t = transfers_[e.transfer];
      (e.send ? t.left : t.usable) = true;
    }
  }
  return queue.first != before;
}

// Begins or delivers the transfers at the head of a queue.
bool TransferQueues::look_at_head(QueueId q, std::int64_t now) {
  Queue& queue = queues_[q];
  bool moved = leave_complete_batches(queue);
  if (queue.first == queue.entries.size()) return moved;
  const int batch = batch_of(queue.entries[queue.first]);
  for (std::size_t k = queue.first; k < queue.entries.size() && batch_of(queue.entries[k]) == batch; ++k) {
    const Queue::Entry e = queue.entries[k];
    Transfer& t = transfers_[e.transfer];
    if (t.begin == kNotYet && t.sent != kNotYet && at_head(t.send_queue, t.send_batch) && may_begin(t)) {
      t.begin = now;
      ++outstanding_[t.connection];
      begun_.push_back(e.transfer);
      moved = true;
    }
    if (t.end != kNotYet && !t.delivered && t.received != kNotYet && at_head(t.recv_queue, t.recv_batch)) {
      deliver(t);
      moved = true;
    }
  }
  return moved;
}

bool TransferQueues::may_begin(const Transfer& t) const {
  if (policy_.buffered > 0) return outstanding_[t.connection] < policy_.buffered;
  return t.received != kNotYet && at_head(t.recv_queue, t.recv_batch);
}

void TransferQueues::deliver(Transfer& t) {
  t.delivered = true;
  --outstanding_[t.connection];
  touch(t.recv_queue);
  // A sender may wait at the head because too many messages were in flight.
  for (const QueueId q : senders_of(t.connection)) touch(q);
}

// The queues of a connection's SENDs.
const std::vector<QueueId>& TransferQueues::senders_of(ConnectionId connection) {
  if (senders_.empty()) {
    senders_.resize(layout_.connections().size());
    for (const int stage : s_.rank_of_stage.ids()) {
      for (const ActionKind kind : {ActionKind::send_forward, ActionKind::send_backward}) {
        const Action send{kind, stage, 0};
        const int other = counterpart(send).stage;
        if (other < 0 || other >= s_.stages() || !sent_between(s_, std::min(stage, other))) continue;
        std::vector<QueueId>& list = senders_[layout_.connection_of(send)];
        if (std::ranges::find(list, layout_.queue_of(send)) == list.end())
          list.push_back(layout_.queue_of(send));
      }
    }
  }
  return senders_[connection];
}

}  // namespace braid::pipeline
