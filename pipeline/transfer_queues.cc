#include "pipeline/transfer_queues.h"

#include <algorithm>

#include "pipeline/transfers.h"

namespace braid::pipeline {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

TransferQueues::TransferQueues(const Schedule& schedule, ChannelPolicy policy)
    : s_(schedule),
      policy_(policy),
      layout_(schedule, policy.kind),
      transfer_of_(2 * dense_size(schedule), -1),
      queues_(at(layout_.queues())),
      outstanding_(at(layout_.connections()), 0) {}

TransferQueues::Transfer& TransferQueues::transfer(Action send) {
  int& index = transfer_of_[index_of(send)];
  if (index < 0) {
    index = static_cast<int>(transfers_.size());
    Transfer t;
    t.send = send;
    t.from = s_.rank_of_stage[at(send.stage)];
    t.to = s_.rank_of_stage[at(counterpart(send).stage)];
    transfers_.push_back(t);
  }
  return transfers_[at(index)];
}

void TransferQueues::post(Action a, std::int64_t now) {
  const bool send = is_send(a.kind);
  Transfer& t = transfer(send ? a : counterpart(a));
  const int q = layout_.queue_of(a);
  (send ? t.sent : t.received) = now;
  (send ? t.send_batch : t.recv_batch) = batch_;
  (send ? t.send_queue : t.recv_queue) = q;
  t.connection = layout_.connection_of(a);
  queues_[at(q)].entries.push_back({transfer_of_[index_of(t.send)], send});
  touch(q);
}

int TransferQueues::send_by_itself(Action send, std::int64_t now) {
  Transfer& t = transfer(send);
  t.sent = t.received = t.begin = now;
  return transfer_of_[index_of(send)];
}

void TransferQueues::end(int index, std::int64_t now) {
  Transfer& t = transfers_[at(index)];
  t.end = now;
  touch(t.send_queue);
  touch(t.recv_queue);
  if (t.connection < 0) t.delivered = t.usable = true;
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
      Transfer& t = transfers_[at(e.transfer)];
      (e.send ? t.left : t.usable) = true;
    }
  }
  return queue.first != before;
}

// Begins, or delivers, what is at the head of a queue.
bool TransferQueues::look_at_head(int q, std::int64_t now) {
  Queue& queue = queues_[at(q)];
  bool moved = leave_complete_batches(queue);
  if (queue.first == queue.entries.size()) return moved;
  const int batch = batch_of(queue.entries[queue.first]);
  for (std::size_t k = queue.first; k < queue.entries.size() && batch_of(queue.entries[k]) == batch; ++k) {
    const Queue::Entry e = queue.entries[k];
    Transfer& t = transfers_[at(e.transfer)];
    if (t.begin == kNotYet && t.sent != kNotYet && at_head(t.send_queue, t.send_batch) && may_begin(t)) {
      t.begin = now;
      ++outstanding_[at(t.connection)];
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
  if (policy_.buffered > 0) return outstanding_[at(t.connection)] < policy_.buffered;
  return t.received != kNotYet && at_head(t.recv_queue, t.recv_batch);
}

void TransferQueues::deliver(Transfer& t) {
  t.delivered = true;
  --outstanding_[at(t.connection)];
  touch(t.recv_queue);
  // A sender may wait at the head because too many messages were in flight.
  for (const int q : senders_of(t.connection)) touch(q);
}

// Queues through which a connection's SENDs go.
const std::vector<int>& TransferQueues::senders_of(int connection) {
  if (senders_.empty()) {
    senders_.resize(at(layout_.connections()));
    for (int stage = 0; stage < s_.stages(); ++stage) {
      for (const ActionKind kind : {ActionKind::send_forward, ActionKind::send_backward}) {
        const Action send{kind, stage, 0};
        const int other = counterpart(send).stage;
        if (other < 0 || other >= s_.stages() || !sent_between(s_, std::min(stage, other))) continue;
        std::vector<int>& list = senders_[at(layout_.connection_of(send))];
        if (std::ranges::find(list, layout_.queue_of(send)) == list.end())
          list.push_back(layout_.queue_of(send));
      }
    }
  }
  return senders_[at(connection)];
}

}  // namespace braid::pipeline
