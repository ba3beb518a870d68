#include "passes/overlap/local_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "passes/overlap/window_search.h"

namespace braid::passes {
namespace {

using namespace analysis;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// splitmix64: the same numbers everywhere.
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

LocalSearch::LocalSearch(const Problem& problem, const LiveBytes* live, std::int64_t limit, Time bound)
    : p_(problem),
      live_(live != nullptr && !live->empty() ? live : nullptr),
      limit_(limit),
      bound_(bound),
      stride_(std::clamp(static_cast<int>(std::sqrt(problem.size()) / 2), 4, 64)),
      position_(at(problem.size())),
      mark_(at(problem.size()), 0) {
  if (live_ != nullptr) {
    touches_.assign(live_->tenants().size(), 0);
    touches_seen_.assign(live_->tenants().size(), 0);
  }
}

void LocalSearch::set(std::vector<int> order) {
  order_ = std::move(order);
  for (std::size_t k = 0; k < order_.size(); ++k) position_[at(order_[k])] = static_cast<int>(k);
  blocked_.assign(order_.size(), 0);
  const std::size_t checkpoints = order_.size() / at(stride_) + 1;
  checkpoints_.assign(checkpoints, Simulator(p_));
  shift_.assign(checkpoints, 0);
  simulate_from(0);
  if (live_ == nullptr) return;
  peaks_ = {};
  const auto& tenants = live_->tenants();
  first_touch_.assign(tenants.size(), -1);
  last_touch_.assign(tenants.size(), -1);
  SpaceBytes now{};
  for (std::size_t t = 0; t < tenants.size(); ++t) {
    if (tenants[t].from_begin) now[at(tenants[t].space)] += tenants[t].bytes;
    for (int n : tenants[t].nodes) {
      const int k = position_[at(n)];
      if (first_touch_[t] < 0 || k < first_touch_[t]) first_touch_[t] = k;
      last_touch_[t] = std::max(last_touch_[t], k);
    }
  }
  alive_.assign(order_.size() + 1, {});
  for (std::size_t k = 0; k < order_.size(); ++k) {
    alive_[k] = now;
    for (int t : live_->touched_by(order_[k])) {
      if (first_touch_[at(t)] == static_cast<int>(k) && !tenants[at(t)].from_begin) {
        now[at(tenants[at(t)].space)] += tenants[at(t)].bytes;
      }
    }
    for (std::size_t s = 0; s < 2; ++s) peaks_[s] = std::max(peaks_[s], now[s]);
    for (int t : live_->touched_by(order_[k])) {
      if (last_touch_[at(t)] == static_cast<int>(k) && !tenants[at(t)].to_end) {
        now[at(tenants[at(t)].space)] -= tenants[at(t)].bytes;
      }
    }
  }
  alive_.back() = now;
  limit_ = std::max(limit_, total(peaks_));
}

std::size_t LocalSearch::checkpoint_before(int position) const { return at(position / stride_); }

// From a position whose checkpoint holds, to the end, or to where nothing but the time has changed.
void LocalSearch::simulate_from(int position) {
  std::size_t c = checkpoint_before(position);
  Simulator s = checkpoints_[c];
  const std::int64_t base = shift_[c];
  for (int k = static_cast<int>(c) * stride_; k < static_cast<int>(order_.size()); ++k) {
    if (k % stride_ == 0 && k > 0 && at(k / stride_) != c) {
      const std::size_t i = at(k / stride_);
      checkpoints_[i] = s;
      shift_[i] = base;
    }
    const std::int64_t before = s.blocked().ps;
    s.append(order_[at(k)]);
    blocked_[at(k)] = s.blocked().ps - before;
  }
  if (const int n = static_cast<int>(order_.size()); n % stride_ == 0 && n > 0) {
    checkpoints_[at(n / stride_)] = s;
    shift_[at(n / stride_)] = base;
  }
  makespan_ = s.finish() + Time{base};
}

Time LocalSearch::evaluate(int lo, std::span<const int> nodes, SearchBudget& budget) {
  const std::size_t c = checkpoint_before(lo);
  Simulator s = checkpoints_[c];
  const std::int64_t base = shift_[c];
  const int begin = static_cast<int>(c) * stride_, hi = lo + static_cast<int>(nodes.size());
  for (int k = begin; k < lo; ++k) s.append(order_[at(k)]);
  for (int n : nodes) s.append(n);
  int k = hi;
  for (; k < static_cast<int>(order_.size()); ++k) {
    if (k % stride_ == 0 || k == hi) {
      if (k % stride_ == 0) {
        const Simulator& was = checkpoints_[at(k / stride_)];
        const std::int64_t later = s.now().ps + base - was.now().ps - shift_[at(k / stride_)];
        if (s.same_in_flight(was)) {
          budget.appends -= k - begin;
          return makespan_ + Time{later};
        }
        if (later >= 0) {
          bool dominated = true;
          for (int ch = 0; ch < p_.channels && dominated; ++ch) {
            dominated = s.backlog(ch).ps + later >= was.backlog(ch).ps;
          }
          if (dominated) {
            budget.appends -= k - begin;
            return makespan_;
          }
        }
      }
    }
    s.append(order_[at(k)]);
  }
  budget.appends -= k - begin;
  return s.finish() + Time{base};
}

bool LocalSearch::fits(int lo, std::span<const int> nodes) {
  if (live_ == nullptr) return true;
  const int hi = lo + static_cast<int>(nodes.size()) - 1;
  const auto& tenants = live_->tenants();
  for (int n : nodes) {
    for (int t : live_->touched_by(n)) touches_[at(t)] = touches_seen_[at(t)] = 0;
  }
  for (int n : nodes) {
    for (int t : live_->touched_by(n)) ++touches_[at(t)];
  }
  SpaceBytes now = alive_[at(lo)], peak = peaks_;
  for (int n : nodes) {
    for (int t : live_->touched_by(n)) {
      const LiveTenant& tenant = tenants[at(t)];
      if (touches_seen_[at(t)]++ == 0 && first_touch_[at(t)] >= lo && !tenant.from_begin) {
        now[at(tenant.space)] += tenant.bytes;
      }
    }
    for (std::size_t s = 0; s < 2; ++s) peak[s] = std::max(peak[s], now[s]);
    if (total(peak) > limit_) return false;
    for (int t : live_->touched_by(n)) {
      const LiveTenant& tenant = tenants[at(t)];
      if (touches_seen_[at(t)] == touches_[at(t)] && last_touch_[at(t)] <= hi && !tenant.to_end) {
        now[at(tenant.space)] -= tenant.bytes;
      }
    }
  }
  return true;
}

void LocalSearch::apply(int lo, std::span<const int> nodes) {
  const int hi = lo + static_cast<int>(nodes.size());
  for (int k = lo; k < hi; ++k) {
    order_[at(k)] = nodes[at(k - lo)];
    position_[at(order_[at(k)])] = k;
  }
  // Re-simulate until the states agree.
  const std::size_t c = checkpoint_before(lo);
  Simulator s = checkpoints_[c];
  const std::int64_t base = shift_[c];
  bool met = false;
  for (int k = static_cast<int>(c) * stride_; k < static_cast<int>(order_.size()); ++k) {
    if (k % stride_ == 0 && at(k / stride_) != c) {
      const std::size_t i = at(k / stride_);
      if (k >= hi && s.same_in_flight(checkpoints_[i])) {
        const std::int64_t later = s.now().ps + base - checkpoints_[i].now().ps - shift_[i];
        for (std::size_t j = i; j < shift_.size(); ++j) shift_[j] += later;
        makespan_.ps += later;
        met = true;
        break;
      }
      checkpoints_[i] = s;
      shift_[i] = base;
    }
    const std::int64_t before = s.blocked().ps;
    s.append(order_[at(k)]);
    blocked_[at(k)] = s.blocked().ps - before;
  }
  if (!met) makespan_ = s.finish() + Time{base};
  if (live_ == nullptr) return;
  const auto& tenants = live_->tenants();
  for (int k = lo; k < hi; ++k) {
    for (int t : live_->touched_by(order_[at(k)])) {
      int first = static_cast<int>(order_.size()), last = -1;
      for (int n : tenants[at(t)].nodes) {
        first = std::min(first, position_[at(n)]);
        last = std::max(last, position_[at(n)]);
      }
      first_touch_[at(t)] = first;
      last_touch_[at(t)] = last;
    }
  }
  SpaceBytes now = alive_[at(lo)];
  for (int k = lo; k < hi; ++k) {
    alive_[at(k)] = now;
    for (int t : live_->touched_by(order_[at(k)])) {
      if (first_touch_[at(t)] == k && !tenants[at(t)].from_begin) {
        now[at(tenants[at(t)].space)] += tenants[at(t)].bytes;
      }
    }
    for (std::size_t i = 0; i < 2; ++i) peaks_[i] = std::max(peaks_[i], now[i]);
    for (int t : live_->touched_by(order_[at(k)])) {
      if (last_touch_[at(t)] == k && !tenants[at(t)].to_end) {
        now[at(tenants[at(t)].space)] -= tenants[at(t)].bytes;
      }
    }
  }
}

bool LocalSearch::attempt(int lo, std::span<const int> nodes, SearchBudget& budget) {
  if (nodes.empty() || !fits(lo, nodes)) return false;
  if (evaluate(lo, nodes, budget) >= makespan_) return false;
  apply(lo, nodes);
  return true;
}

std::vector<int> LocalSearch::raised(int from, int to) {
  ++marks_;
  std::vector<int> up, rest;
  mark_[at(order_[at(from)])] = marks_;
  for (int k = from; k >= to; --k) {
    const int n = order_[at(k)];
    if (mark_[at(n)] == marks_) {
      up.push_back(n);
      for (int before : p_.predecessors(n)) mark_[at(before)] = marks_;
    } else {
      rest.push_back(n);
    }
  }
  if (rest.empty()) return {};
  up.insert(up.begin(), rest.begin(), rest.end());
  std::reverse(up.begin(), up.end());
  return up;
}

std::vector<int> LocalSearch::sunk(int from, int to) {
  ++marks_;
  std::vector<int> down, rest;
  mark_[at(order_[at(from)])] = marks_;
  for (int k = from; k <= to; ++k) {
    const int n = order_[at(k)];
    if (mark_[at(n)] == marks_) {
      down.push_back(n);
      for (int after : p_.successors(n)) mark_[at(after)] = marks_;
    } else {
      rest.push_back(n);
    }
  }
  if (rest.empty()) return {};
  rest.insert(rest.end(), down.begin(), down.end());
  return rest;
}

bool LocalSearch::relocate(int position, SearchBudget& budget) {
  const int wait = order_[at(position)];
  const int c = p_.waited_by(wait) >= 0 ? p_.waited_by(wait) : p_.started_by(wait);
  if (c < 0) return false;
  const int start = p_.collectives[at(c)].start;
  for (int d = 1; !done(budget); d *= 2) {
    const int from = position_[at(start)];
    const int to = std::max(0, from - d);
    const std::vector<int> nodes = raised(from, to);
    if (attempt(to, nodes, budget)) return true;
    if (to == 0 || d > (1 << 13)) break;
  }
  for (int d = 1; !done(budget); d *= 2) {
    const int from = position_[at(wait)];
    const int to = std::min(static_cast<int>(order_.size()) - 1, from + d);
    const std::vector<int> nodes = sunk(from, to);
    if (attempt(from, nodes, budget)) return true;
    if (to + 1 == static_cast<int>(order_.size()) || d > (1 << 13)) break;
  }
  return false;
}

bool LocalSearch::window(int lo, SearchBudget& budget) {
  const int size = std::min(kWindow, static_cast<int>(order_.size()) - lo);
  const std::size_t c = checkpoint_before(lo);
  Simulator s = checkpoints_[c];
  for (int k = static_cast<int>(c) * stride_; k < lo; ++k) s.append(order_[at(k)]);
  WindowSearch search(p_, s, std::span(order_).subspan(at(lo), at(size)));
  const int hi = lo + size;
  search.set_rest(tails_, hi < static_cast<int>(tails_.stream.size()) ? tails_.stream[at(hi)] : 0,
                  [&](int channel) -> std::int64_t {
                    const auto& list = starts_[at(channel)];
                    const auto next = std::lower_bound(list.begin(), list.end(), std::pair{hi, -1});
                    return next == list.end() ? 0 : tails_.collective[at(next->second)];
                  });
  if (live_ != nullptr)
    search.set_memory(*live_, lo, alive_[at(lo)], peaks_, limit_, first_touch_, last_touch_);
  budget.appends -= search.run(kBeam);
  bool changed = false;
  for (const std::vector<int>& nodes : search.results()) {
    if (std::equal(nodes.begin(), nodes.end(), order_.begin() + lo)) continue;
    if (attempt(lo, nodes, budget)) {
      changed = true;
      break;
    }
  }
  return changed;
}

bool LocalSearch::sweep(SearchBudget& budget, bool everywhere) {
  // Windows change only what lies left of what they use of these.
  tails_ = order_tails(p_, order_);
  starts_.assign(at(p_.channels), {});
  for (std::size_t k = 0; k < order_.size(); ++k) {
    for (const Step& step : p_.steps_of(order_[k])) {
      if (step.kind == Step::Kind::start) {
        starts_[at(p_.collectives[at(step.collective)].channel)].push_back(
            {static_cast<int>(k), step.collective});
      }
    }
  }
  const int n = static_cast<int>(order_.size());
  std::vector<char> wanted(order_.size(), everywhere ? 1 : 0);
  if (!everywhere) {
    for (int k = 0; k < n; ++k) {
      if (blocked_[at(k)] == 0) continue;
      // Where it blocks, and where what it waits for was started.
      const int c = p_.waited_by(order_[at(k)]);
      const int s = c >= 0 ? position_[at(p_.collectives[at(c)].start)] : k;
      for (int m = std::max(0, k - kWindow + 3); m <= k; ++m) wanted[at(m)] = 1;
      for (int m = std::max(0, s - kWindow + 3); m <= s; ++m) wanted[at(m)] = 1;
    }
  }
  bool changed = false;
  int next = 0;
  for (int lo = 0; lo + 1 < n && !done(budget); ++lo) {
    if (wanted[at(lo)] == 0 || lo < next) continue;
    changed |= window(lo, budget);
    next = lo + std::max(1, kWindow / 3);
    if (lo + kWindow >= n) break;
  }
  return changed;
}

bool LocalSearch::improve(SearchBudget& budget) {
  bool ever = false;
  for (int round = 0; round < 64 && !done(budget); ++round) {
    bool changed = sweep(budget, false);
    std::vector<int> exposed;  // nodes, those in which the stream is blocked longest first
    for (std::size_t k = 0; k < order_.size(); ++k) {
      if (blocked_[k] > 0) exposed.push_back(order_[k]);
    }
    std::stable_sort(exposed.begin(), exposed.end(), [&](int a, int b) {
      return blocked_[at(position_[at(a)])] > blocked_[at(position_[at(b)])];
    });
    for (int n : exposed) {
      if (done(budget)) break;
      if (blocked_[at(position_[at(n)])] > 0) changed |= relocate(position_[at(n)], budget);
    }
    if (!changed && !done(budget)) changed = sweep(budget, true);
    ever |= changed;
    if (!changed) break;
  }
  return ever;
}

void LocalSearch::explore(SearchBudget& budget, std::uint64_t seed) {
  const int n = static_cast<int>(order_.size());
  if (n < 3) return;
  std::vector<int> best = order_;
  Time shortest = makespan_;
  while (!done(budget)) {
    const int kicks = 1 + static_cast<int>(next_random(seed) % 3);
    for (int i = 0; i < kicks; ++i) {
      const int from = static_cast<int>(next_random(seed) % static_cast<std::uint64_t>(n));
      const int span = std::max(2, std::min(n, 24));
      const int by = 1 + static_cast<int>(next_random(seed) % static_cast<std::uint64_t>(span - 1));
      const bool up = next_random(seed) % 2 == 0;
      const int to = up ? std::max(0, from - by) : std::min(n - 1, from + by);
      const std::vector<int> nodes = up ? raised(from, to) : sunk(from, to);
      const int lo = std::min(from, to);
      if (nodes.empty() || !fits(lo, nodes)) continue;
      apply(lo, nodes);
      budget.appends -= n - lo;
    }
    improve(budget);
    if (makespan_ < shortest) {
      shortest = makespan_;
      best = order_;
    } else if (makespan_ > shortest) {
      set(best);
      budget.appends -= n;
    }
  }
  if (makespan_ > shortest) set(best);
}

}  // namespace braid::passes
