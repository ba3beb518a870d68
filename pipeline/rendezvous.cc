#include "pipeline/rendezvous.h"

#include <algorithm>
#include <bit>

namespace braid::pipeline {

using enum ActionKind;

Rendezvous::Rendezvous(const PipelineSchedule& schedule, const ChannelLayout& layout, int buffered)
    : s_(schedule),
      layout_(layout),
      buffered_(buffered),
      shift_(std::bit_width(static_cast<unsigned>(std::max(1, schedule.microbatches) - 1))),
      ranks_(schedule.rows.ids()),
      queues_(layout.queues()),
      next_(schedule.rank_of_stage.size() << shift_ << 2),
      through_(schedule.rank_of_stage.size() << shift_, 0),
      complete_(through_) {
  if (buffered_ > 0) under_way_.assign(layout.connections().ids(), 0);
  std::size_t transfers = 0;
  for (const Row& row : schedule.rows)
    for (const Action a : row) {
      transfers += is_send(a.kind) || (buffered > 0 && is_recv(a.kind));
      batched_ |= a.kind == batch_p2p;
      waits_ |= is_wait_send(a.kind);
    }
  if (batched_) groups_.resize(next_.size());
  order_.reserve(transfers);
}

std::vector<Action> Rendezvous::run() {
  for (const int r : ranks_.ids()) {
    todo_.push_back(r);
    while (!todo_.empty()) {
      const int rank = todo_.back();
      todo_.pop_back();
      advance(rank);
    }
  }
  return std::move(order_);
}

bool Rendezvous::finished() const {
  for (const int r : ranks_.ids())
    if (ranks_[r].position < s_.rows[r].size()) return false;
  return std::ranges::all_of(queues_, [](const Queue& q) { return !q.front.valid(); });
}

std::vector<Action> Rendezvous::front(QueueId queue) const {
  std::vector<Action> out;
  for (Item i = queues_[queue].front; i.valid(); i = next_member(i))
    if (!through(action(i))) out.push_back(action(i));
  return out;
}

// Advances in a row until something must be complete first.
void Rendezvous::advance(int r) {
  Rank& rank = ranks_[r];
  const Row& row = s_.rows[r];
  while (rank.position < row.size()) {
    const Action a = row[rank.position];
    if (is_send(a.kind) || is_recv(a.kind)) {
      ++rank.position;
      post({&a, 1});
      drain();
      continue;
    }
    const auto cell = members(row, rank.position);
    if (a.kind == batch_p2p) {
      rank.position += 1 + cell.size();
      post(cell);
      drain();
      continue;
    }
    rank.awaits = awaited(cell);
    if (rank.awaits.valid()) return;
    rank.position += cell_size(row, rank.position);
  }
}

Rendezvous::Item Rendezvous::awaited(std::span<const Action> cell) const {
  for (const Action a : cell) {
    const Action t = awaited_transfer(s_, a);
    if (t.kind != idle && !complete(t)) return item(t);
  }
  return {};
}

void Rendezvous::post(std::span<const Action> together) {
  if (!batched_) {
    enqueue(queue_of(together.front()), item(together.front()));
    return;
  }
  // One group per queue: its members in the order in which they are listed.
  for (std::size_t i = 0; i < together.size(); ++i) {
    const Item first = item(together[i]);
    if (groups_[first].first.valid()) continue;  // in the group of an earlier one
    const QueueId queue = layout_.queue_of(together[i]);
    Item last;
    for (std::size_t j = i; j < together.size(); ++j) {
      if (layout_.queue_of(together[j]) != queue) continue;
      const Item member = item(together[j]);
      if (last.valid()) groups_[last].next_member = member;
      groups_[member].first = first;
      ++groups_[first].left;
      last = member;
    }
    enqueue(queues_[queue], first);
  }
}

void Rendezvous::enqueue(Queue& queue, Item first) {
  if (!queue.front.valid()) {
    queue.front = queue.last = first;
    attempt_front(queue);
    return;
  }
  next_[queue.last] = first;
  queue.last = first;
}

bool Rendezvous::at_front(Action t) const {
  const Item i = item(t);
  const Item front = queue_of(t).front;
  if (!batched_) return front == i;
  return front.valid() && groups_[i].first == front;
}

// Messages of one connection leave, and arrive, in order, also those of one batch.
bool Rendezvous::stands_behind_its_batch(Action t) const {
  if (!batched_) return false;
  const Item own = item(t);
  for (Item i = groups_[own].first; i != own; i = groups_[i].next_member) {
    const Action other = action(i);
    if (is_send(other.kind) == is_send(t.kind) && !through(other) &&
        layout_.connection_of(other) == layout_.connection_of(t))
      return true;
  }
  return false;
}

void Rendezvous::attempt_front(const Queue& queue) {
  for (Item i = queue.front; i.valid(); i = next_member(i)) attempts_.push_back(i);
}

void Rendezvous::drain() {
  while (!attempts_.empty()) {
    const Item i = attempts_.back();
    attempts_.pop_back();
    attempt(action(i));
  }
}

void Rendezvous::attempt(Action t) {
  if (!at_front(t) || (batched_ && through(t))) return;
  const Action other = counterpart(t);
  if (buffered_ == 0) {
    if (!at_front(other)) return;
    order_.push_back(is_send(t.kind) ? t : other);
    pass(t);
    pass(other);
  } else if (is_send(t.kind)) {
    if (under_way(t) == buffered_ || stands_behind_its_batch(t)) return;
    ++under_way(t);
    order_.push_back(t);
    pass(t);
    attempts_.push_back(item(other));
    if (batched_) attempt_front(queue_of(t));  // a transfer posted with it may be next
  } else {
    if (!through(other) || stands_behind_its_batch(t)) return;
    --under_way(t);
    order_.push_back(t);
    pass(t);
    attempt_front(queue_of(other));  // a buffer is free
    if (batched_) attempt_front(queue_of(t));
  }
}

void Rendezvous::pass(Action t) {
  through_[index(t)] |= bit(t.kind);
  Item first = item(t);
  if (batched_) {
    first = groups_[first].first;
    if (--groups_[first].left > 0) return;
    for (Item i = first; i.valid(); i = next_member(i)) completed(action(i));
  } else if (waits_ || is_recv(t.kind)) {
    completed(t);
  }
  Queue& queue = queue_of(t);
  queue.front = queue.front == queue.last ? Item{} : next_[first];
  attempt_front(queue);
}

void Rendezvous::completed(Action t) {
  complete_[index(t)] |= bit(t.kind);
  const int r = s_.rank_of_stage[t.stage];
  if (ranks_[r].awaits != item(t)) return;
  ranks_[r].awaits = {};
  todo_.push_back(r);
}

}  // namespace braid::pipeline
