#include "passes/overlap/window_search.h"

#include <algorithm>
#include <numeric>

namespace braid::passes {
namespace {

using namespace analysis;

std::size_t at(int index) { return static_cast<std::size_t>(index); }
std::uint32_t bit(int local) { return std::uint32_t{1} << local; }

}  // namespace

WindowSearch::WindowSearch(const Problem& problem, const Simulator& before, std::span<const int> nodes)
    : p_(problem),
      before_(before),
      nodes_(nodes),
      needs_(nodes.size(), 0),
      work_(nodes.size(), 0),
      slowdown_(nodes.size(), 1000) {
  // Nodes of a window are few: a sorted list of (node, local).
  std::vector<std::pair<int, int>> local_of;
  for (int i = 0; i < static_cast<int>(nodes.size()); ++i) local_of.push_back({nodes[at(i)], i});
  std::sort(local_of.begin(), local_of.end());
  for (int i = 0; i < static_cast<int>(nodes.size()); ++i) {
    for (int pred : p_.predecessors(nodes[at(i)])) {
      const auto it = std::lower_bound(local_of.begin(), local_of.end(), std::pair{pred, 0});
      if (it != local_of.end() && it->first == pred) needs_[at(i)] |= bit(it->second);
    }
    for (const Step& s : p_.steps_of(nodes[at(i)])) {
      work_[at(i)] += s.work.ps;
      slowdown_[at(i)] = std::max(slowdown_[at(i)], s.slowdown);
      if (s.kind == Step::Kind::start) {
        const Collective& c = p_.collectives[at(s.collective)];
        starts_.push_back({i, c.channel, c.cost.time.ps, c.cost.slowdown});
        if (s.blocking) work_[at(i)] += c.cost.time.ps;
      }
      if (s.kind == Step::Kind::wait) waits_.push_back({s.collective, i});
    }
    if (work_[at(i)] > 0) by_slowdown_.push_back(i);
    contended_ |= slowdown_[at(i)] > 1000;
  }
  std::stable_sort(by_slowdown_.begin(), by_slowdown_.end(),
                   [&](int a, int b) { return slowdown_[at(a)] < slowdown_[at(b)]; });
}

void WindowSearch::set_rest(const OrderTails& tails, std::int64_t stream,
                            const std::function<std::int64_t(int)>& next_on) {
  tails_ = &tails;
  stream_ = stream;
  for (int ch = 0; ch < p_.channels; ++ch) channel_rest_.push_back(next_on(ch));
  // Nodes stand in a topological order, so successors have higher numbers.
  const int n = static_cast<int>(nodes_.size());
  tail_.assign(nodes_.size(), stream_);
  std::vector<std::int64_t> after(nodes_.size(), stream_);
  for (int i = n; i-- > 0;) {
    std::int64_t t = after[at(i)];
    for (int s = p_.first_step[at(nodes_[at(i)]) + 1]; s-- > p_.first_step[at(nodes_[at(i)])];) {
      const Step& step = p_.steps[at(s)];
      t += step.work.ps;
      if (step.kind != Step::Kind::start) continue;
      const Collective& c = p_.collectives[at(step.collective)];
      std::int64_t rest = channel_rest_[at(c.channel)];
      if (step.blocking) {
        rest = std::max(rest, t);
      } else {
        std::int64_t from_wait = tails_->wait[at(step.collective)];
        for (const auto& [collective, local] : waits_) {
          if (collective == step.collective) from_wait = local == i ? t : tail_[at(local)];
        }
        rest = std::max(rest, from_wait);
      }
      t = std::max(t, c.cost.time.ps + rest);
    }
    tail_[at(i)] = t;
    for (int j = 0; j < i; ++j) {
      if ((needs_[at(i)] & bit(j)) != 0) after[at(j)] = std::max(after[at(j)], t);
    }
  }
  by_tail_.resize(nodes_.size());
  std::iota(by_tail_.begin(), by_tail_.end(), 0);
  std::stable_sort(by_tail_.begin(), by_tail_.end(),
                   [&](int a, int b) { return tail_[at(a)] > tail_[at(b)]; });
}

void WindowSearch::set_memory(const LiveBytes& live, int lo, const SpaceBytes& alive, const SpaceBytes& peaks,
                              std::int64_t limit, std::span<const int> first, std::span<const int> last) {
  alive_ = alive;
  peaks_ = peaks;
  limit_ = limit;
  touches_.resize(nodes_.size());
  const int hi = lo + static_cast<int>(nodes_.size()) - 1;
  std::vector<std::pair<int, int>> seen;  // tenant, index
  for (int i = 0; i < static_cast<int>(nodes_.size()); ++i) {
    for (int t : live.touched_by(nodes_[at(i)])) {
      auto it = std::lower_bound(seen.begin(), seen.end(), std::pair{t, -1});
      if (it == seen.end() || it->first != t) {
        const LiveTenant& tenant = live.tenants()[at(t)];
        it = seen.insert(it, {t, static_cast<int>(tenants_.size())});
        tenants_.push_back({tenant.bytes, tenant.space, 0, tenant.from_begin || first[at(t)] < lo,
                            tenant.to_end || last[at(t)] > hi});
      }
      tenants_[at(it->second)].touchers |= bit(i);
      touches_[at(i)].push_back(it->second);
    }
  }
}

bool WindowSearch::append(State& state, int local) const {
  if (!tenants_.empty()) {
    for (int t : touches_[at(local)]) {
      const Tenant& tenant = tenants_[at(t)];
      if (!tenant.before && (tenant.touchers & state.mask) == 0)
        state.alive[at(tenant.space)] += tenant.bytes;
    }
    for (std::size_t s = 0; s < 2; ++s) state.peak[s] = std::max(state.peak[s], state.alive[s]);
    if (total(state.peak) > limit_) return false;
  }
  state.mask |= bit(local);
  state.simulator.append(nodes_[at(local)]);
  if (!tenants_.empty()) {
    for (int t : touches_[at(local)]) {
      const Tenant& tenant = tenants_[at(t)];
      if (!tenant.after && (tenant.touchers & ~state.mask) == 0)
        state.alive[at(tenant.space)] -= tenant.bytes;
    }
  }
  return true;
}

// How much longer the computations of the window take, at best, because of the collectives that are left:
// they run beside those that they slow down least.
std::int64_t WindowSearch::contention(const State& state) const {
  std::int64_t busy = 0;  // time in which a collective is in flight while the stream computes
  state.simulator.each_in_flight([&](int collective, Time until) {
    (void)until;
    busy +=
        stretched(p_.collectives[at(collective)].cost.time, p_.collectives[at(collective)].cost.slowdown).ps;
  });
  for (int ch = 0; ch < p_.channels; ++ch) {
    // Of the heads only a part is left.
    std::int64_t whole = 0;
    state.simulator.each_in_flight([&](int collective, Time) {
      if (p_.collectives[at(collective)].channel == ch) whole += p_.collectives[at(collective)].cost.time.ps;
    });
    busy -= whole - state.simulator.backlog(ch).ps;
  }
  for (const Start& s : starts_) {
    if ((state.mask & bit(s.local)) == 0) busy += stretched(Time{s.time}, s.slowdown).ps;
  }
  std::int64_t cost = 0;
  Permille worst = 1000;
  for (int i : by_slowdown_) {
    if (busy <= 0) return cost;
    worst = std::max(worst, slowdown_[at(i)]);
    if ((state.mask & bit(i)) != 0) continue;
    const std::int64_t beside = std::min(busy, stretched(Time{work_[at(i)]}, slowdown_[at(i)]).ps);
    cost += beside - done_in(Time{beside}, slowdown_[at(i)]).ps;
    busy -= beside;
  }
  // What is left is taken to slow down what comes behind the window.
  if (busy > 0 && stream_ > 0) {
    busy = std::min(busy, stream_);
    cost += busy - done_in(Time{busy}, worst).ps;
  }
  return cost;
}

void WindowSearch::judge(State& state) const {
  const std::int64_t now = state.simulator.now().ps;
  std::int64_t work = 0, tail = stream_;
  for (std::size_t i = 0; i < work_.size(); ++i) {
    if ((state.mask & bit(static_cast<int>(i))) == 0) work += work_[i];
  }
  for (int i : by_tail_) {
    if ((state.mask & bit(i)) != 0) continue;
    tail = std::max(tail, tail_[at(i)]);
    break;
  }
  std::int64_t rest = std::max(work + stream_ + (contended_ ? contention(state) : 0), tail);
  std::int64_t queued = 0;
  state.simulator.each_in_flight([&](int collective, Time until) {
    std::int64_t from_wait = tails_->wait[at(collective)];
    for (const auto& [c, local] : waits_) {
      if (c == collective) from_wait = (state.mask & bit(local)) != 0 ? 0 : tail_[at(local)];
    }
    rest = std::max(rest, until.ps + from_wait);
  });
  for (int ch = 0; ch < p_.channels; ++ch) {
    std::int64_t load = state.simulator.backlog(ch).ps;
    for (const Start& s : starts_) {
      if (s.channel == ch && (state.mask & bit(s.local)) == 0) load += s.time;
    }
    queued += load;
    rest = std::max(rest, load + channel_rest_[at(ch)]);
  }
  state.estimate = now + rest;
  state.slack = 2 * (now + work) + queued;
}

// What costs nothing to append now.
bool WindowSearch::is_free(const State& state, int local) const {
  for (const Step& s : p_.steps_of(nodes_[at(local)])) {
    if (s.kind == Step::Kind::start || s.work.ps > 0) return false;
    if (s.kind == Step::Kind::wait && !state.simulator.complete(s.collective)) return false;
  }
  return true;
}

std::int64_t WindowSearch::run(int beam) {
  const int n = static_cast<int>(nodes_.size());
  std::int64_t appends = 0;
  std::vector<State> level, children;
  level.push_back({0, 0, 0, -1, -1, before_, alive_, peaks_});
  std::size_t used = 1;
  std::vector<std::vector<Trace>> traces(at(n));
  std::vector<int> rank;
  for (int depth = 0; depth < n; ++depth) {
    std::size_t count = 0;
    for (std::size_t k = 0; k < used; ++k) {
      const State& state = level[k];
      std::uint32_t ready = 0;
      for (int i = 0; i < n; ++i) {
        if ((state.mask & bit(i)) != 0 || (needs_[at(i)] & ~state.mask) != 0) continue;
        if (tenants_.empty() && is_free(state, i)) {
          ready = bit(i);
          break;
        }
        ready |= bit(i);
      }
      for (int i = 0; i < n; ++i) {
        if ((ready & bit(i)) == 0) continue;
        if (count == children.size()) children.push_back(state);
        State& child = children[count];
        child = state;
        ++appends;
        if (!append(child, i)) continue;
        child.node = i;
        child.parent = static_cast<int>(k);
        judge(child);
        ++count;
      }
    }
    // The best two of each set of nodes, and of those the best.
    rank.resize(count);
    std::iota(rank.begin(), rank.end(), 0);
    const auto better = [&](int a, int b) {
      const State &x = children[at(a)], &y = children[at(b)];
      return std::tuple(x.estimate, x.slack, a) < std::tuple(y.estimate, y.slack, b);
    };
    std::sort(rank.begin(), rank.end(), better);
    std::vector<std::uint32_t> masks;
    level.resize(std::max(level.size(), at(beam)), {0, 0, 0, -1, -1, before_, alive_, peaks_});
    used = 0;
    for (int c : rank) {
      const State& child = children[at(c)];
      if (depth + 1 < n && std::count(masks.begin(), masks.end(), child.mask) >= 2) continue;
      masks.push_back(child.mask);
      traces[at(depth)].push_back({child.node, child.parent});
      std::swap(level[used], children[at(c)]);
      if (++used == at(beam)) break;
    }
    if (used == 0) return appends;
  }
  constexpr std::size_t kResults = 3;
  for (std::size_t k = 0; k < std::min(used, kResults); ++k) {
    std::vector<int> order(nodes_.size());
    int at_level = static_cast<int>(k);
    for (int depth = n; depth-- > 0;) {
      const Trace& t = traces[at(depth)][at(at_level)];
      order[at(depth)] = nodes_[at(t.node)];
      at_level = t.parent;
    }
    results_.push_back(std::move(order));
  }
  return appends;
}

}  // namespace braid::passes
