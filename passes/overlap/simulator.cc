#include "passes/overlap/simulator.h"

#include <algorithm>

namespace braid::passes {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::int64_t stretch(std::int64_t work, std::int64_t factor) { return stretched(Time{work}, factor).ps; }
std::int64_t done(std::int64_t elapsed, std::int64_t factor) { return done_in(Time{elapsed}, factor).ps; }

}  // namespace

struct Simulator::Recorder {
  std::vector<char> complete;  // per collective
  Timeline* timeline = nullptr;
};

Simulator::Simulator(const Problem& problem)
    : problem_(&problem), sharing_(at(problem.fabrics), 0), queues_(at(problem.channels)) {}

void Simulator::append(int node) {
  const Problem& p = *problem_;
  for (int s = p.first_step[at(node)]; s < p.first_step[at(node) + 1]; ++s) {
    const Step& step = p.steps[at(s)];
    const Time before = now_;
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
      recorder_->timeline->steps[at(s)] = {before, now_};
    }
  }
}

Time Simulator::finish() const {
  if (in_flight_ == 0) return now_;
  Simulator rest = *this;
  rest.recorder_ = nullptr;
  rest.drain();
  return rest.now_;
}

bool Simulator::is_in_flight(int collective) const {
  if (in_flight_ == 0) return false;
  if (recorder_ != nullptr) return recorder_->complete[at(collective)] == 0;
  for (const Head& h : heads_) {
    if (h.collective == collective) return true;
  }
  const int channel = problem_->collectives[at(collective)].channel;
  for (int q = queues_[at(channel)].first; q >= 0; q = pool_[at(q)].next) {
    if (pool_[at(q)].collective == collective) return true;
  }
  return false;
}

bool Simulator::same_in_flight(const Simulator& other) const {
  if (in_flight_ != other.in_flight_ || heads_.size() != other.heads_.size()) return false;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    if (heads_[i].collective != other.heads_[i].collective ||
        heads_[i].remaining != other.heads_[i].remaining) {
      return false;
    }
    int mine = queues_[at(heads_[i].channel)].first, its = other.queues_[at(heads_[i].channel)].first;
    while (mine >= 0 && its >= 0 && pool_[at(mine)].collective == other.pool_[at(its)].collective) {
      mine = pool_[at(mine)].next;
      its = other.pool_[at(its)].next;
    }
    if (mine >= 0 || its >= 0) return false;
  }
  return true;
}

Time Simulator::backlog(int channel) const {
  Time sum;
  for (const Head& h : heads_) {
    if (h.channel == channel) sum.ps += h.remaining;
  }
  if (sum.ps == 0) return sum;
  for (int q = queues_[at(channel)].first; q >= 0; q = pool_[at(q)].next) {
    sum += problem_->collectives[at(pool_[at(q)].collective)].cost.time;
  }
  return sum;
}

std::int64_t Simulator::time_of(const Head& head, bool computing) const {
  const std::int64_t k = sharing_[at(head.fabric)];
  return stretch(head.remaining, computing ? k * head.slowdown : k * 1000);
}

void Simulator::compute(const Step& step) {
  std::int64_t remaining = step.work.ps;
  while (remaining > 0 && !heads_.empty()) {
    const std::int64_t to_end = stretch(remaining, step.slowdown);
    std::int64_t next = to_end;
    for (const Head& h : heads_) next = std::min(next, time_of(h, true));
    remaining = next == to_end ? 0 : remaining - done(next, step.slowdown);
    advance(next, true);
  }
  now_.ps += remaining;
}

void Simulator::block_until_complete(int collective) {
  if (!is_in_flight(collective)) return;
  const Time before = now_;
  bool complete = false;
  while (!complete) {
    std::int64_t next = INT64_MAX;
    for (const Head& h : heads_) next = std::min(next, time_of(h, false));
    complete = advance(next, false, collective);
  }
  blocked_ += now_ - before;
  if (recorder_ != nullptr && recorder_->timeline != nullptr) {
    recorder_->timeline->collectives[at(collective)].exposed += now_ - before;
  }
}

void Simulator::drain() {
  while (!heads_.empty()) {
    std::int64_t next = INT64_MAX;
    for (const Head& h : heads_) next = std::min(next, time_of(h, false));
    advance(next, false);
  }
}

void Simulator::issue(int collective) {
  const int channel = problem_->collectives[at(collective)].channel;
  ++in_flight_;
  if (recorder_ != nullptr && recorder_->timeline != nullptr) {
    recorder_->timeline->collectives[at(collective)].issued = now_;
  }
  bool busy = false;
  for (const Head& h : heads_) busy |= h.channel == channel;
  if (!busy) {
    begin(collective);
    if (heads_.back().remaining == 0) advance(0, false);
    return;
  }
  int entry = free_;
  if (entry >= 0) {
    free_ = pool_[at(entry)].next;
    pool_[at(entry)] = {collective, -1};
  } else {
    entry = static_cast<int>(pool_.size());
    pool_.push_back({collective, -1});
  }
  Queue& queue = queues_[at(channel)];
  if (queue.first < 0) {
    queue.first = entry;
  } else {
    pool_[at(queue.last)].next = entry;
  }
  queue.last = entry;
}

void Simulator::begin(int collective) {
  const Collective& c = problem_->collectives[at(collective)];
  heads_.push_back({collective, c.channel, c.cost.fabric, c.cost.slowdown, c.cost.time.ps});
  ++sharing_[at(c.cost.fabric)];
  if (recorder_ != nullptr && recorder_->timeline != nullptr) {
    recorder_->timeline->collectives[at(collective)].begin = now_;
  }
}

bool Simulator::advance(std::int64_t ps, bool computing, int collective) {
  for (Head& h : heads_) {
    const std::int64_t k = sharing_[at(h.fabric)];
    h.remaining -= std::min(h.remaining, done(ps, computing ? k * h.slowdown : k * 1000));
  }
  now_.ps += ps;
  bool found = false;
  // What follows a complete one begins now, and is complete at once if it costs nothing.
  for (std::size_t i = 0; i < heads_.size();) {
    if (heads_[i].remaining > 0) {
      ++i;
      continue;
    }
    const Head gone = heads_[i];
    heads_.erase(heads_.begin() + static_cast<std::ptrdiff_t>(i));
    --sharing_[at(gone.fabric)];
    --in_flight_;
    found |= gone.collective == collective;
    if (recorder_ != nullptr) {
      recorder_->complete[at(gone.collective)] = 1;
      if (recorder_->timeline != nullptr) {
        recorder_->timeline->collectives[at(gone.collective)].end = now_;
      }
    }
    Queue& queue = queues_[at(gone.channel)];
    if (queue.first < 0) continue;
    const int entry = queue.first;
    queue.first = pool_[at(entry)].next;
    pool_[at(entry)].next = free_;
    free_ = entry;
    begin(pool_[at(entry)].collective);
  }
  if (in_flight_ == static_cast<int>(heads_.size()) && !pool_.empty()) {
    pool_.clear();  // nobody is queued: copies stay small
    free_ = -1;
  }
  return found;
}

Time simulate_makespan(const Problem& problem, std::span<const int> order) {
  Simulator::Recorder recorder{std::vector<char>(problem.collectives.size(), 0), nullptr};
  Simulator s(problem);
  s.recorder_ = &recorder;
  for (int n : order) s.append(n);
  s.drain();
  return s.now_;
}

Timeline simulate(const Problem& problem, std::span<const int> order) {
  Timeline t;
  t.steps.resize(problem.steps.size());
  t.collectives.resize(problem.collectives.size());
  Simulator::Recorder recorder{std::vector<char>(problem.collectives.size(), 0), &t};
  Simulator s(problem);
  s.recorder_ = &recorder;
  for (int n : order) s.append(n);
  const Time last_step = s.now_;
  s.drain();
  t.makespan = s.now_;
  t.exposed = s.now_ - last_step;
  for (const CollectiveTimes& c : t.collectives) t.exposed += c.exposed;
  for (std::size_t k = 0; k < problem.steps.size(); ++k) {
    if (problem.steps[k].kind == Step::Kind::compute) t.compute += t.steps[k].end - t.steps[k].begin;
  }
  return t;
}

}  // namespace braid::passes
