#include "analysis/simulator.h"

#include <algorithm>

#include "ir/error.h"

namespace braid::analysis {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

}  // namespace

struct Simulator::Recorder {
  std::vector<char> complete;  // per collective
  Timeline* timeline = nullptr;
};

Simulator::Simulator(const Problem& problem)
    : problem_(&problem), engine_(at(problem.fabrics)), queues_(at(problem.channels)) {}

void Simulator::append(int node) {
  const Problem& p = *problem_;
  for (int s = p.first_step[at(node)]; s < p.first_step[at(node) + 1]; ++s) {
    const Step& step = p.steps[at(s)];
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
      recorder_->timeline->steps[at(s)] = {before, now()};
      if (step.kind == Step::Kind::wait || step.blocking)
        recorder_->timeline->collectives[at(step.collective)].blocked += now() - before;
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

bool Simulator::is_in_flight(int collective) const {
  if (in_flight_ == 0) return false;
  if (recorder_ != nullptr) return recorder_->complete[at(collective)] == 0;
  for (const auto& h : engine_.running()) {
    if (h.collective == collective) return true;
  }
  const int channel = problem_->collectives[at(collective)].channel;
  for (int q = queues_[at(channel)].first; q >= 0; q = pool_[at(q)].next) {
    if (pool_[at(q)].collective == collective) return true;
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
    int mine = queues_[at(heads[i].channel)].first, its = other.queues_[at(heads[i].channel)].first;
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
  for (const auto& h : engine_.running()) {
    if (h.channel == channel) sum.ps += h.remaining;
  }
  if (sum.ps == 0) return sum;
  for (int q = queues_[at(channel)].first; q >= 0; q = pool_[at(q)].next) {
    sum += problem_->collectives[at(pool_[at(q)].collective)].cost.time;
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

void Simulator::block_until_complete(int collective) {
  if (!is_in_flight(collective)) return;
  const Time before = now();
  std::vector<CollectiveTimes>* const times =
      recorder_ != nullptr && recorder_->timeline != nullptr ? &recorder_->timeline->collectives : nullptr;
  for (bool complete = false; !complete;) {
    const std::vector<int> charged = times != nullptr ? holding_up(collective) : std::vector<int>();
    const Time elapsed = advance(Time::max(), alone, collective, &complete);
    if (times == nullptr) continue;
    const auto count = static_cast<std::int64_t>(charged.size());
    for (std::int64_t k = 0; k < count; ++k)
      (*times)[at(charged[static_cast<std::size_t>(k)])].exposed.ps +=
          elapsed.ps / count + (k < elapsed.ps % count ? 1 : 0);
  }
  blocked_ += now() - before;
}

std::vector<int> Simulator::holding_up(int collective) const {
  const auto heads = engine_.running();
  const auto head = std::ranges::find(heads, problem_->collectives[at(collective)].channel, &Head::channel);
  ir::internal_check(head != heads.end(), "a collective is in flight on an idle channel");
  std::vector<int> out;
  for (const auto& h : heads) {
    if (h.resources == head->resources) out.push_back(h.collective);
  }
  return out;
}

int Simulator::last_in_flight() const {
  Timeline rest;
  rest.collectives.resize(problem_->collectives.size());
  Recorder recorder{std::vector<char>(problem_->collectives.size(), 1), &rest};
  int last = -1;
  each_in_flight([&](int c, Time) { recorder.complete[at(c)] = 0; });
  Simulator copy = *this;
  copy.recorder_ = &recorder;
  copy.drain();
  each_in_flight([&](int c, Time) {
    if (last < 0 || rest.collectives[at(c)].end > rest.collectives[at(last)].end) last = c;
  });
  return last;
}

void Simulator::drain() {
  while (!engine_.idle()) advance(Time::max(), alone);
}

void Simulator::issue(int collective) {
  const int channel = problem_->collectives[at(collective)].channel;
  ++in_flight_;
  if (recorder_ != nullptr && recorder_->timeline != nullptr) {
    recorder_->timeline->collectives[at(collective)].issued = now();
  }
  bool busy = false;
  for (const auto& h : engine_.running()) busy |= h.channel == channel;
  if (!busy) {
    begin(collective);
    if (engine_.running().back().remaining == 0) advance(Time{}, alone);
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
  engine_.begin({collective, c.channel, {c.cost.fabric}, c.cost.slowdown, c.cost.time.ps});
  if (recorder_ != nullptr && recorder_->timeline != nullptr) {
    recorder_->timeline->collectives[at(collective)].begin = now();
  }
}

template <class Factor>
Time Simulator::advance(Time at_most, const Factor& factor, int collective, bool* complete) {
  const Time elapsed = engine_.advance(at_most, factor, [&](const Head& gone) {
    --in_flight_;
    if (gone.collective == collective) *complete = true;
    if (recorder_ != nullptr) {
      recorder_->complete[at(gone.collective)] = 1;
      if (recorder_->timeline != nullptr) {
        recorder_->timeline->collectives[at(gone.collective)].end = now();
      }
    }
    // What follows it begins now.
    Queue& queue = queues_[at(gone.channel)];
    if (queue.first < 0) return;
    const int entry = queue.first;
    queue.first = pool_[at(entry)].next;
    pool_[at(entry)].next = free_;
    free_ = entry;
    begin(pool_[at(entry)].collective);
  });
  if (in_flight_ == static_cast<int>(engine_.running().size()) && !pool_.empty()) {
    pool_.clear();  // nobody is queued: copies stay small
    free_ = -1;
  }
  return elapsed;
}

Time simulate_makespan(const Problem& problem, std::span<const int> order) {
  Simulator::Recorder recorder{std::vector<char>(problem.collectives.size(), 0), nullptr};
  Simulator s(problem);
  s.recorder_ = &recorder;
  for (int n : order) s.append(n);
  s.drain();
  return s.now();
}

Timeline simulate(const Problem& problem, std::span<const int> order) {
  Timeline t;
  t.steps.resize(problem.steps.size());
  t.collectives.resize(problem.collectives.size());
  Simulator::Recorder recorder{std::vector<char>(problem.collectives.size(), 0), &t};
  Simulator s(problem);
  s.recorder_ = &recorder;
  for (int n : order) s.append(n);
  if (const int last = s.last_in_flight(); last >= 0) s.block_until_complete(last);
  s.drain();  // what ends at the same time
  t.makespan = s.now();
  for (const CollectiveTimes& c : t.collectives) t.exposed += c.exposed;
  for (std::size_t k = 0; k < problem.steps.size(); ++k) {
    if (problem.steps[k].kind == Step::Kind::compute) t.compute += t.steps[k].end - t.steps[k].begin;
  }
  return t;
}

}  // namespace braid::analysis
