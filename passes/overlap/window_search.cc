#include "passes/overlap/window_search.h"

#include <algorithm>
#include <ranges>

namespace braid::passes {
namespace {

using namespace analysis;

}  // namespace

WindowSearch::WindowSearch(const Problem& problem, const Simulator& before, std::span<const NodeId> nodes)
    : p_(problem),
      before_(before),
      nodes_(nodes),
      needs_(nodes_.ids(), 0),
      work_(nodes_.ids(), 0),
      slowdown_(nodes_.ids(), 1000) {
  // Nodes of a window are few: a sorted list of (node, local).
  std::vector<std::pair<NodeId, Local>> local_of;
  for (const Local i : nodes_.ids()) local_of.push_back({nodes_[i], i});
  std::sort(local_of.begin(), local_of.end());
  for (const Local i : nodes_.ids()) {
    for (NodeId pred : p_.predecessors(nodes_[i])) {
      const auto it = std::lower_bound(local_of.begin(), local_of.end(), std::pair{pred, Local{0}});
      if (it != local_of.end() && it->first == pred) needs_[i] |= bit(it->second);
    }
    for (const Step& s : p_.steps_of(nodes_[i])) {
      work_[i] += s.work.ps;
      slowdown_[i] = std::max(slowdown_[i], s.slowdown);
      if (s.kind == Step::Kind::start) {
        const Collective& c = p_.collectives[s.collective];
        starts_.push_back({i, c.channel, c.cost.time.ps, c.cost.slowdown});
        if (s.blocking) work_[i] += c.cost.time.ps;
      }
      if (s.kind == Step::Kind::wait) waits_.push_back({s.collective, i});
    }
    if (work_[i] > 0) by_slowdown_.push_back(i);
    contended_ |= slowdown_[i] > 1000;
  }
  std::stable_sort(by_slowdown_.begin(), by_slowdown_.end(),
                   [&](Local a, Local b) { return slowdown_[a] < slowdown_[b]; });
}

void WindowSearch::set_rest(const OrderTails& tails, std::int64_t stream,
                            const std::function<std::int64_t(ChannelId)>& next_on) {
  tails_ = &tails;
  stream_ = stream;
  for (ChannelId ch : p_.channel_ids()) channel_rest_.push_back(next_on(ch));
  // Nodes stand in a topological order, so successors have higher numbers.
  tail_.assign(nodes_.ids(), stream_);
  IdVector<Local, std::int64_t> after(nodes_.ids(), stream_);
  for (const Local i : std::views::reverse(nodes_.ids())) {
    std::int64_t t = after[i];
    for (StepId s : std::views::reverse(p_.step_ids(nodes_[i]))) {
      const Step& step = p_.steps[s];
      t += step.work.ps;
      if (step.kind != Step::Kind::start) continue;
      const Collective& c = p_.collectives[step.collective];
      std::int64_t rest = channel_rest_[c.channel];
      if (step.blocking) {
        rest = std::max(rest, t);
      } else {
        std::int64_t from_wait = tails_->wait[step.collective];
        for (const auto& [collective, local] : waits_) {
          if (collective == step.collective) from_wait = local == i ? t : tail_[local];
        }
        rest = std::max(rest, from_wait);
      }
      t = std::max(t, c.cost.time.ps + rest);
    }
    tail_[i] = t;
    for (const Local j : IdRange(Local{0}, i)) {
      if ((needs_[i] & bit(j)) != 0) after[j] = std::max(after[j], t);
    }
  }
  by_tail_.assign(nodes_.ids().begin(), nodes_.ids().end());
  std::ranges::stable_sort(by_tail_, std::ranges::greater(), [&](Local i) { return tail_[i]; });
}

void WindowSearch::set_memory(const LiveOrder& live, Position lo, std::int64_t limit) {
  if (live.empty()) return;
  alive_ = live.before(lo);
  peaks_ = live.peaks();
  limit_ = limit;
  touches_.resize(nodes_.size());
  const Position hi = lo + count_of(nodes_);
  std::vector<std::pair<TenantId, Block>> seen;
  for (const Local i : nodes_.ids()) {
    for (TenantId t : live.bytes().touched_by(nodes_[i])) {
      auto it = std::lower_bound(seen.begin(), seen.end(), std::pair{t, Block{}});
      if (it == seen.end() || it->first != t) {
        const LiveTenant& tenant = live.bytes().tenants()[t];
        const LiveOrder::Life life = live.life(t);
        it = seen.insert(it, {t, tenants_.end_id()});
        tenants_.push_back({tenant.bytes, tenant.space, 0, life.first < lo, life.last >= hi});
      }
      tenants_[it->second].touchers |= bit(i);
      touches_[i].push_back(it->second);
    }
  }
}

bool WindowSearch::append(State& state, Local local) const {
  if (!tenants_.empty()) {
    for (const Block t : touches_[local]) {
      const Tenant& tenant = tenants_[t];
      if (!tenant.before && (tenant.touchers & state.mask) == 0) state.alive[tenant.space] += tenant.bytes;
    }
    for (std::size_t s = 0; s < 2; ++s) state.peak[s] = std::max(state.peak[s], state.alive[s]);
    if (total(state.peak) > limit_) return false;
  }
  state.mask |= bit(local);
  state.simulator.append(nodes_[local]);
  if (!tenants_.empty()) {
    for (const Block t : touches_[local]) {
      const Tenant& tenant = tenants_[t];
      if (!tenant.after && (tenant.touchers & ~state.mask) == 0) state.alive[tenant.space] -= tenant.bytes;
    }
  }
  return true;
}

// How much longer the computations of the window take, at best, because of the collectives that are left:
// they run beside those that they slow down least.
std::int64_t WindowSearch::contention(const State& state) const {
  std::int64_t busy = 0;  // time in which a collective is in flight while the stream computes
  state.simulator.each_in_flight([&](CollectiveId collective, Time until) {
    (void)until;
    busy += stretched(p_.collectives[collective].cost.time, p_.collectives[collective].cost.slowdown).ps;
  });
  for (ChannelId ch : p_.channel_ids()) {
    // Only the backlog of the channel's collectives is left; subtract the time that is already done.
    std::int64_t whole = 0;
    state.simulator.each_in_flight([&](CollectiveId collective, Time) {
      if (p_.collectives[collective].channel == ch) whole += p_.collectives[collective].cost.time.ps;
    });
    busy -= whole - state.simulator.backlog(ch).ps;
  }
  for (const Start& s : starts_) {
    if ((state.mask & bit(s.local)) == 0) busy += stretched(Time{s.time}, s.slowdown).ps;
  }
  std::int64_t cost = 0;
  Permille worst = 1000;
  for (const Local i : by_slowdown_) {
    if (busy <= 0) return cost;
    worst = std::max(worst, slowdown_[i]);
    if ((state.mask & bit(i)) != 0) continue;
    const std::int64_t beside = std::min(busy, stretched(Time{work_[i]}, slowdown_[i]).ps);
    cost += beside - done_in(Time{beside}, slowdown_[i]).ps;
    busy -= beside;
  }
  // The remaining busy time is assumed to slow down the compute after the window.
  if (busy > 0 && stream_ > 0) {
    busy = std::min(busy, stream_);
    cost += busy - done_in(Time{busy}, worst).ps;
  }
  return cost;
}

void WindowSearch::judge(State& state) const {
  const std::int64_t now = state.simulator.now().ps;
  std::int64_t work = 0, tail = stream_;
  for (const Local i : work_.ids()) {
    if ((state.mask & bit(i)) == 0) work += work_[i];
  }
  for (const Local i : by_tail_) {
    if ((state.mask & bit(i)) != 0) continue;
    tail = std::max(tail, tail_[i]);
    break;
  }
  std::int64_t rest = std::max(work + stream_ + (contended_ ? contention(state) : 0), tail);
  std::int64_t queued = 0;
  state.simulator.each_in_flight([&](CollectiveId collective, Time until) {
    std::int64_t from_wait = tails_->wait[collective];
    for (const auto& [c, local] : waits_) {
      if (c == collective) from_wait = (state.mask & bit(local)) != 0 ? 0 : tail_[local];
    }
    rest = std::max(rest, until.ps + from_wait);
  });
  for (ChannelId ch : p_.channel_ids()) {
    std::int64_t load = state.simulator.backlog(ch).ps;
    for (const Start& s : starts_) {
      if (s.channel == ch && (state.mask & bit(s.local)) == 0) load += s.time;
    }
    queued += load;
    rest = std::max(rest, load + channel_rest_[ch]);
  }
  state.estimate = now + rest;
  state.slack = 2 * (now + work) + queued;
}

// Whether the node costs nothing if it is appended now.
bool WindowSearch::is_free(const State& state, Local local) const {
  for (const Step& s : p_.steps_of(nodes_[local])) {
    if (s.kind == Step::Kind::start || s.work.ps > 0) return false;
    if (s.kind == Step::Kind::wait && !state.simulator.complete(s.collective)) return false;
  }
  return true;
}

// The nodes that may come next.
std::uint32_t WindowSearch::ready(const State& state) const {
  std::uint32_t ready = 0;
  for (const Local i : nodes_.ids()) {
    if ((state.mask & bit(i)) != 0 || (needs_[i] & ~state.mask) != 0) continue;
    if (tenants_.empty() && is_free(state, i)) return bit(i);
    ready |= bit(i);
  }
  return ready;
}

// Moves the best of the children to `level`, at most two of each set of nodes unless the level is the last.
// Returns their number.
int WindowSearch::select(IdVector<int, State>& children, int count, int beam, bool last,
                         IdVector<int, State>& level, IdVector<int, Trace>& trace) const {
  const IdRange<int> all = first_ids<int>(count);
  std::vector<int> rank(all.begin(), all.end());
  std::ranges::sort(rank, [&](int a, int b) {
    const State &x = children[a], &y = children[b];
    return std::tuple(x.estimate, x.slack, a) < std::tuple(y.estimate, y.slack, b);
  });
  std::vector<std::uint32_t> masks;
  int used = 0;
  for (const int c : rank) {
    const State& child = children[c];
    if (!last && std::count(masks.begin(), masks.end(), child.mask) >= 2) continue;
    masks.push_back(child.mask);
    trace.push_back({child.node, child.parent});
    std::swap(level[used], children[c]);
    if (++used == beam) break;
  }
  return used;
}

std::int64_t WindowSearch::run(int beam) {
  std::int64_t appends = 0;
  IdVector<int, State> level, children;
  const State start{0, 0, 0, {}, -1, before_, alive_, peaks_};
  level.push_back(start);
  int used = 1;
  IdVector<Local, IdVector<int, Trace>> traces(nodes_.ids());  // per depth
  for (const Local depth : nodes_.ids()) {
    int count = 0;
    for (int k = 0; k < used; ++k) {
      const State& state = level[k];
      const std::uint32_t next = ready(state);
      for (const Local i : nodes_.ids()) {
        if ((next & bit(i)) == 0) continue;
        if (count == children.end_id()) children.push_back(state);
        State& child = children[count];
        child = state;
        ++appends;
        if (!append(child, i)) continue;
        child.node = i;
        child.parent = k;
        judge(child);
        ++count;
      }
    }
    while (level.end_id() < beam) level.push_back(start);
    used = select(children, count, beam, depth + 1 == nodes_.end_id(), level, traces[depth]);
    if (used == 0) return appends;
  }
  constexpr int kResults = 3;
  for (int k = 0; k < std::min(used, kResults); ++k) {
    IdVector<Local, NodeId> order(nodes_.ids());
    int at_level = k;
    for (const Local depth : std::views::reverse(nodes_.ids())) {
      const Trace& t = traces[depth][at_level];
      order[depth] = nodes_[t.node];
      at_level = t.parent;
    }
    results_.push_back(std::move(order));
  }
  return appends;
}

}  // namespace braid::passes
