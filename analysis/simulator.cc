#include "analysis/simulator.h"

#include <algorithm>

#include "ir/error.h"

namespace braid::analysis {
struct Simulator::Recorder {
  IdVector<CollectiveId, char> complete;
  Timeline* timeline = nullptr;
};

Simulator::Simulator(const Problem& problem)
    : problem_(&problem), engine_(problem.fabrics), queues_(problem.channel_ids()) {}

void Simulator::append(NodeId node) {
  const Problem& p = *problem_;
  for (StepId s : p.step_ids(node)) {
    const Step& step = p.steps[s];
    const Time before = now();
    switch (step.kind) {
      case Step::Kind::compute:
        compute(step);
        break;
      case Step::Kind::start:
        issue(step.collective);
        if (step.blocking) block_until_complete(step.collective);
        break;
      case Step::Kind::wait:
        block_until_complete(step.collective);
        break;
      case Step::Kind::release:
        break;
    }
    if (recorder_ != nullptr && recorder_->timeline != nullptr) {
      recorder_->timeline->steps[s] = {before, now()};
      if (step.kind == Step::Kind::wait || step.blocking)
        recorder_->timeline->collectives[step.collective].blocked += now() - before;
    }
  }
}

Time Simulator::finish() const {
  if (in_flight_ == 0) return now();
  Simulator rest = *this;
  rest.recorder_ = nullptr;
  rest.drain();
  return rest.now();
}

bool Simulator::is_in_flight(CollectiveId collective) const {
  if (in_flight_ == 0) return false;
  if (recorder_ != nullptr) return recorder_->complete[collective] == 0;
  for (const auto& h : engine_.running()) {
    if (h.collective == collective) return true;
  }
  const ChannelId channel = problem_->collectives[collective].channel;
  for (EntryId q = queues_[channel].first; q.valid(); q = pool_[q].next) {
    if (pool_[q].collective == collective) return true;
  }
  return false;
}

bool Simulator::same_in_flight(const Simulator& other) const {
  const auto heads = engine_.running(), its_heads = other.engine_.running();
  if (in_flight_ != other.in_flight_ || heads.size() != its_heads.size()) return false;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (heads[i].collective != its_heads[i].collective || heads[i].remaining != its_heads[i].remaining) {
      return false;
    }
    EntryId mine = queues_[heads[i].channel].first, its = other.queues_[heads[i].channel].first;
    while (mine.valid() && its.valid() && pool_[mine].collective == other.pool_[its].collective) {
      mine = pool_[mine].next;
      its = other.pool_[its].next;
    }
    if (mine.valid() || its.valid()) return false;
  }
  return true;
}

Time Simulator::backlog(ChannelId channel) const {
  Time sum;
  for (const auto& h : engine_.running()) {
    if (h.channel == channel) sum.ps += h.remaining;
  }
  if (sum.ps == 0) return sum;
  for (EntryId q = queues_[channel].first; q.valid(); q = pool_[q].next) {
    sum += problem_->collectives[pool_[q].collective].cost.time;
  }
  return sum;
}

void Simulator::compute(const Step& step) {
  Time remaining = step.work;
  while (remaining > Time{} && !engine_.idle()) {
    const Time to_end = stretched(remaining, step.slowdown);
    const Time elapsed = advance(to_end, beside_compute);
    remaining = elapsed == to_end ? Time{} : remaining - done_in(elapsed, step.slowdown);
  }
  engine_.pass(remaining);
}

void Simulator::block_until_complete(CollectiveId collective) {
  if (!is_in_flight(collective)) return;
  const Time before = now();
  IdVector<CollectiveId, CollectiveTimes>* const times =
      recorder_ != nullptr && recorder_->timeline != nullptr ? &recorder_->timeline->collectives : nullptr;
  for (bool complete = false; !complete;) {
    const std::vector<CollectiveId> charged =
        times != nullptr ? holding_up(collective) : std::vector<CollectiveId>();
    const Time elapsed = advance(Time::max(), alone, collective, &complete);
    if (times == nullptr) continue;
    const std::int64_t count = std::ssize(charged);
    std::int64_t left_over = elapsed.ps % count;
    for (const CollectiveId c : charged)
      (*times)[c].exposed.ps += elapsed.ps / count + (left_over-- > 0 ? 1 : 0);
  }
  blocked_ += now() - before;
}

std::vector<CollectiveId> Simulator::holding_up(CollectiveId collective) const {
  const auto heads = engine_.running();
  const auto head = std::ranges::find(heads, problem_->collectives[collective].channel, &Head::channel);
  ir::internal_check(head != heads.end(), "a collective is in flight on an idle channel");
  std::vector<CollectiveId> out;
  for (const auto& h : heads) {
    if (h.resources == head->resources) out.push_back(h.collective);
  }
  return out;
}

CollectiveId Simulator::last_in_flight() const {
  Timeline rest;
  rest.collectives.resize(problem_->collectives.size());
  Recorder recorder{IdVector<CollectiveId, char>(problem_->collectives.ids(), 1), &rest};
  CollectiveId last;
  each_in_flight([&](CollectiveId c, Time) { recorder.complete[c] = 0; });
  Simulator copy = *this;
  copy.recorder_ = &recorder;
  copy.drain();
  each_in_flight([&](CollectiveId c, Time) {
    if (!last.valid() || rest.collectives[c].end > rest.collectives[last].end) last = c;
  });
  return last;
}

void Simulator::drain() {
  while (!engine_.idle()) advance(Time::max(), alone);
}

void Simulator::issue(CollectiveId collective) {
  const ChannelId channel = problem_->collectives[collective].channel;
  ++in_flight_;
  if (recorder_ != nullptr && recorder_->timeline != nullptr) {
    recorder_->timeline->collectives[collective].issued = now();
  }
  bool busy = false;
  for (const auto& h : engine_.running()) busy |= h.channel == channel;
  if (!busy) {
    begin(collective);
    if (engine_.running().back().remaining == 0) advance(Time{}, alone);
    return;
  }
  EntryId entry = free_;
  if (entry.valid()) {
    free_ = pool_[entry].next;
    pool_[entry] = {collective, {}};
  } else {
    entry = pool_.end_id();
    pool_.push_back({collective, {}});
  }
  Queue& queue = queues_[channel];
  if (!queue.first.valid()) {
    queue.first = entry;
  } else {
    pool_[queue.last].next = entry;
  }
  queue.last = entry;
}

void Simulator::begin(CollectiveId collective) {
  const Collective& c = problem_->collectives[collective];
  engine_.begin({collective, c.channel, {c.cost.fabric}, c.cost.slowdown, c.cost.time.ps});
  if (recorder_ != nullptr && recorder_->timeline != nullptr) {
    recorder_->timeline->collectives[collective].begin = now();
  }
}

template <class Factor>
Time Simulator::advance(Time at_most, const Factor& factor, CollectiveId collective, bool* complete) {
  const Time elapsed = engine_.advance(at_most, factor, [&](const Head& gone) {
    --in_flight_;
    if (gone.collective == collective) *complete = true;
    if (recorder_ != nullptr) {
      recorder_->complete[gone.collective] = 1;
      if (recorder_->timeline != nullptr) {
        recorder_->timeline->collectives[gone.collective].end = now();
      }
    }
    // The next collective of its channel begins now.
    Queue& queue = queues_[gone.channel];
    if (!queue.first.valid()) return;
    const EntryId entry = queue.first;
    queue.first = pool_[entry].next;
    pool_[entry].next = free_;
    free_ = entry;
    begin(pool_[entry].collective);
  });
  if (in_flight_ == std::ssize(engine_.running()) && !pool_.empty()) {
    pool_.clear();  // nothing is queued: copies stay small
    free_ = {};
  }
  return elapsed;
}

Time simulate_makespan(const Problem& problem, OrderView order) {
  Simulator::Recorder recorder{IdVector<CollectiveId, char>(problem.collectives.ids(), 0), nullptr};
  Simulator s(problem);
  s.recorder_ = &recorder;
  for (NodeId n : order) s.append(n);
  s.drain();
  return s.now();
}

Timeline simulate(const Problem& problem, OrderView order) {
  Timeline t;
  t.steps.resize(problem.steps.size());
  t.collectives.resize(problem.collectives.size());
  Simulator::Recorder recorder{IdVector<CollectiveId, char>(problem.collectives.ids(), 0), &t};
  Simulator s(problem);
  s.recorder_ = &recorder;
  for (NodeId n : order) s.append(n);
  if (const CollectiveId last = s.last_in_flight(); last.valid()) s.block_until_complete(last);
  s.drain();  // what ends at the same time
  t.makespan = s.now();
  for (const CollectiveTimes& c : t.collectives) t.exposed += c.exposed;
  for (const StepId k : problem.steps.ids()) {
    if (problem.steps[k].kind == Step::Kind::compute) t.compute += t.steps[k].end - t.steps[k].begin;
  }
  return t;
}

}  // namespace braid::analysis
