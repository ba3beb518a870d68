#include "passes/overlap/local_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "passes/overlap/window_search.h"

namespace braid::passes {
namespace {

using namespace analysis;

// 0 .. bound - 1. splitmix64: the same numbers everywhere.
int random_below(int bound, std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<int>((z ^ (z >> 31)) % static_cast<std::uint64_t>(bound));
}

}  // namespace

LocalSearch::LocalSearch(const Problem& problem, const LiveBytes* live, std::int64_t limit, Time bound)
    : p_(problem),
      limit_(limit),
      bound_(bound),
      stride_(std::clamp(static_cast<int>(std::sqrt(problem.size()) / 2), 4, 64)),
      live_(live, {}),
      mark_(problem.nodes(), 0) {}

void LocalSearch::set(Order order) {
  live_.set(std::move(order));
  limit_ = std::max(limit_, total(live_.peaks()));
  blocked_.assign(p_.nodes().size(), 0);
  checkpoints_.assign(first_ids<int>(p_.size() / stride_ + 1), {Simulator(p_)});
  simulate_from(Position{0}, live_.order().end_id());
}

Time LocalSearch::evaluate(Position lo, std::span<const NodeId> nodes, SearchBudget& budget) {
  const Position begin = checkpoint_before(lo), hi = lo + count_of(nodes);
  auto [s, base] = checkpoint(begin);
  for (const Position k : IdRange(begin, lo)) s.append(order()[k]);
  for (const NodeId n : nodes) s.append(n);
  Position k = hi;
  for (; k < order().end_id(); ++k) {
    if (has_checkpoint(k)) {
      const Checkpoint& was = checkpoint(k);
      const std::int64_t later = s.now().ps + base - was.state.now().ps - was.shift;
      if (s.same_in_flight(was.state)) {
        budget.appends -= k - begin;
        return makespan_ + Time{later};
      }
      const auto is_behind = [&](ChannelId ch) {
        return s.backlog(ch).ps + later >= was.state.backlog(ch).ps;
      };
      if (later >= 0 && std::ranges::all_of(p_.channel_ids(), is_behind)) {
        budget.appends -= k - begin;
        return makespan_;
      }
    }
    s.append(order()[k]);
  }
  budget.appends -= k - begin;
  return s.finish() + Time{base};
}

void LocalSearch::apply(Position lo, std::span<const NodeId> nodes) {
  live_.replace(lo, nodes);
  simulate_from(lo, lo + count_of(nodes));
}

void LocalSearch::simulate_from(Position lo, Position hi) {
  const Position begin = checkpoint_before(lo);
  auto [s, base] = checkpoint(begin);
  for (const Position k : IdRange(begin, order().end_id())) {
    if (k > begin && has_checkpoint(k)) {
      const Checkpoint& was = checkpoint(k);
      if (k >= hi && s.same_in_flight(was.state)) {
        const std::int64_t later = s.now().ps + base - was.state.now().ps - was.shift;
        for (Position j = k; j <= order().end_id(); j = j + stride_) checkpoint(j).shift += later;
        makespan_.ps += later;
        return;
      }
      checkpoint(k) = {s, base};
    }
    const std::int64_t before = s.blocked().ps;
    s.append(order()[k]);
    blocked_[k] = s.blocked().ps - before;
  }
  makespan_ = s.finish() + Time{base};
}

bool LocalSearch::attempt(Position lo, std::span<const NodeId> nodes, SearchBudget& budget) {
  if (nodes.empty() || !fits(lo, nodes)) return false;
  if (evaluate(lo, nodes, budget) >= makespan_) return false;
  apply(lo, nodes);
  return true;
}

std::vector<NodeId> LocalSearch::raised(Position from, Position to) {
  ++marks_;
  std::vector<NodeId> up, rest;
  mark_[order()[from]] = marks_;
  for (Position k = from; k >= to; --k) {
    const NodeId n = order()[k];
    if (mark_[n] == marks_) {
      up.push_back(n);
      for (NodeId before : p_.predecessors(n)) mark_[before] = marks_;
    } else {
      rest.push_back(n);
    }
  }
  if (rest.empty()) return {};
  up.insert(up.begin(), rest.begin(), rest.end());
  std::reverse(up.begin(), up.end());
  return up;
}

std::vector<NodeId> LocalSearch::sunk(Position from, Position to) {
  ++marks_;
  std::vector<NodeId> down, rest;
  mark_[order()[from]] = marks_;
  for (Position k = from; k <= to; ++k) {
    const NodeId n = order()[k];
    if (mark_[n] == marks_) {
      down.push_back(n);
      for (NodeId after : p_.successors(n)) mark_[after] = marks_;
    } else {
      rest.push_back(n);
    }
  }
  if (rest.empty()) return {};
  rest.insert(rest.end(), down.begin(), down.end());
  return rest;
}

bool LocalSearch::relocate(Position position, SearchBudget& budget) {
  const NodeId wait = order()[position];
  const CollectiveId c = p_.waited_by(wait).valid() ? p_.waited_by(wait) : p_.started_by(wait);
  if (!c.valid()) return false;
  const NodeId start = p_.collectives[c].start;
  for (int d = 1; !done(budget); d *= 2) {
    const Position from = live_.position(start);
    const Position to = std::max(Position{0}, from - d);
    const std::vector<NodeId> nodes = raised(from, to);
    if (attempt(to, nodes, budget)) return true;
    if (to.index == 0 || d > (1 << 13)) break;
  }
  for (int d = 1; !done(budget); d *= 2) {
    const Position from = live_.position(wait);
    const Position to = std::min(order().end_id() - 1, from + d);
    const std::vector<NodeId> nodes = sunk(from, to);
    if (attempt(from, nodes, budget)) return true;
    if (to + 1 == order().end_id() || d > (1 << 13)) break;
  }
  return false;
}

bool LocalSearch::window(Position lo, SearchBudget& budget) {
  const Position hi = std::min(lo + kWindow, order().end_id()), begin = checkpoint_before(lo);
  Simulator s = checkpoint(begin).state;
  for (const Position k : IdRange(begin, lo)) s.append(order()[k]);
  WindowSearch search(p_, s, order().slice(lo, hi));
  search.set_rest(tails_, tails_.stream[hi], [&](ChannelId channel) -> std::int64_t {
    const auto& list = starts_[channel];
    const auto next = std::ranges::lower_bound(list, std::pair{hi, CollectiveId{}});
    return next == list.end() ? 0 : tails_.collective[next->second];
  });
  search.set_memory(live_, lo, limit_);
  budget.appends -= search.run(kBeam);
  bool changed = false;
  for (const std::vector<NodeId>& nodes : search.results()) {
    if (std::equal(nodes.begin(), nodes.end(), order().begin() + lo.index)) continue;
    if (attempt(lo, nodes, budget)) {
      changed = true;
      break;
    }
  }
  return changed;
}

bool LocalSearch::sweep(SearchBudget& budget, bool everywhere) {
  // Windows change only what lies left of what they use of these.
  tails_ = order_tails(p_, order());
  starts_.assign(p_.channel_ids(), {});
  for (const Position k : order().ids()) {
    for (const Step& step : p_.steps_of(order()[k])) {
      if (step.kind == Step::Kind::start) {
        starts_[p_.collectives[step.collective].channel].push_back({k, step.collective});
      }
    }
  }
  const Position end = order().end_id();
  IdVector<Position, char> wanted(order().ids(), everywhere ? 1 : 0);
  if (!everywhere) {
    const auto want = [&](Position to) {
      for (const Position m : IdRange(std::max(Position{0}, to - kWindow + 3), to + 1)) wanted[m] = 1;
    };
    for (const Position k : order().ids()) {
      if (blocked_[k] == 0) continue;
      // The position that blocks, and the start of the collective for which it waits.
      const CollectiveId c = p_.waited_by(order()[k]);
      want(k);
      if (c.valid()) want(live_.position(p_.collectives[c].start));
    }
  }
  bool changed = false;
  Position next{0};
  for (Position lo{0}; lo + 1 < end && !done(budget); ++lo) {
    if (wanted[lo] == 0 || lo < next) continue;
    changed |= window(lo, budget);
    next = lo + std::max(1, kWindow / 3);
    if (lo + kWindow >= end) break;
  }
  return changed;
}

bool LocalSearch::improve(SearchBudget& budget) {
  bool ever = false;
  for (int round = 0; round < 64 && !done(budget); ++round) {
    bool changed = sweep(budget, false);
    std::vector<NodeId> exposed;  // those in which the stream is blocked longest first
    for (const Position k : order().ids()) {
      if (blocked_[k] > 0) exposed.push_back(order()[k]);
    }
    std::ranges::stable_sort(exposed, std::ranges::greater(),
                             [&](NodeId n) { return blocked_[live_.position(n)]; });
    for (NodeId n : exposed) {
      if (done(budget)) break;
      if (blocked_[live_.position(n)] > 0) changed |= relocate(live_.position(n), budget);
    }
    if (!changed && !done(budget)) changed = sweep(budget, true);
    ever |= changed;
    if (!changed) break;
  }
  return ever;
}

void LocalSearch::explore(SearchBudget& budget, std::uint64_t seed) {
  const Position end = order().end_id();
  if (order().size() < 3) return;
  Order best = order();
  Time shortest = makespan_;
  while (!done(budget)) {
    const int kicks = 1 + random_below(3, seed);
    for (int i = 0; i < kicks; ++i) {
      const Position from{random_below(end.index, seed)};
      const int by = 1 + random_below(std::min(end.index, 24) - 1, seed);
      const bool up = random_below(2, seed) == 0;
      const Position to = up ? std::max(Position{0}, from - by) : std::min(end - 1, from + by);
      const std::vector<NodeId> nodes = up ? raised(from, to) : sunk(from, to);
      const Position lo = std::min(from, to);
      if (nodes.empty() || !fits(lo, nodes)) continue;
      apply(lo, nodes);
      budget.appends -= end - lo;
    }
    improve(budget);
    if (makespan_ < shortest) {
      shortest = makespan_;
      best = order();
    } else if (makespan_ > shortest) {
      set(best);
      budget.appends -= end.index;
    }
  }
  if (makespan_ > shortest) set(best);
}

}  // namespace braid::passes
