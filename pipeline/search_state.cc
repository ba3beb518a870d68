#include "pipeline/search_state.h"

#include <algorithm>

namespace braid::pipeline {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

const std::vector<int>& on_rank_of(const SearchInstance& in, int s) {
  return in.stages_of_rank[static_cast<std::size_t>(in.rank_of_stage[static_cast<std::size_t>(s)])];
}

// When F of micro-batch k of stage s starts, the rank's earlier stages have run at least as many F and at
// most as many I: they hold at least as many micro-batches, so `below`, their bytes and the stage's own,
// counts for each that the stage holds. Stages after it can only take more away.
void fill_memory_requirements(SearchInstance& in) {
  const std::size_t n = static_cast<std::size_t>(in.stages) * static_cast<std::size_t>(in.microbatches);
  in.inputs_before.assign(n, 0);
  in.weights_before.assign(n, 0);
  in.ahead.resize(static_cast<std::size_t>(in.stages));
  for (int s = 0; s < in.stages; ++s) {
    const auto u = static_cast<std::size_t>(s);
    const auto rank = static_cast<std::size_t>(in.rank_of_stage[u]);
    const std::int64_t cap = in.cap[rank], bytes = in.activation_bytes[u], kept = in.weight_bytes[u];
    if (cap == kNoByteCap) continue;
    std::int64_t below = 0;
    for (const int x : in.stages_of_rank[rank])
      if (x <= s) below += in.activation_bytes[static_cast<std::size_t>(x)];
    if (below == 0) continue;
    for (int k = 0; k < in.microbatches; ++k) {
      // least i where all W that can be done are: (k+1 - i) below <= cap
      in.inputs_before[in.at(s, k)] = static_cast<std::int32_t>(ceil_div((k + 1) * below - cap, below));
      // least w where all I that can be done are: bytes + (k - w) kept <= cap
      if (kept > 0)
        in.weights_before[in.at(s, k)] = static_cast<std::int32_t>(ceil_div(bytes + k * kept - cap, kept));
    }
    // When F of micro-batch j of a later stage starts, no stage of the rank has run I of j or later. If F of
    // k >= j has run here: (k+1 - j) below + one micro-batch of each stage after s up to it <= cap.
    std::int64_t between = 0;
    for (const int x : in.stages_of_rank[rank]) {
      if (x <= s) continue;
      between += in.activation_bytes[static_cast<std::size_t>(x)];
      const std::int64_t room = cap < between ? 0 : (cap - between) / below;
      if (room >= in.microbatches) continue;
      // So the later stage has run k+1 - room F by then, i of their I, no stage below more than i:
      // (k+1 - i) below + (k+1 - room - i) its bytes <= cap, or i >= k+1 - room.
      SearchInstance::Ahead ahead{x, room, {}};
      const std::int64_t later = in.activation_bytes[static_cast<std::size_t>(x)];
      for (std::int64_t k = 0; k < in.microbatches; ++k) {
        const std::int64_t i = ceil_div((k + 1) * below + (k + 1 - room) * later - cap, below + later);
        ahead.inputs.push_back(
            static_cast<std::int32_t>(std::clamp<std::int64_t>(std::min(i, k + 1 - room), 0, k)));
      }
      in.ahead[u].push_back(std::move(ahead));
    }
  }
}

// The first micro-batch whose F wants more than k of `before` done; the number of micro-batches if none does.
int first_waiting(const SearchInstance& in, const std::vector<std::int32_t>& before, int s, int k) {
  int waiting = k + 1;
  while (waiting < in.microbatches && before[in.at(s, waiting)] <= k) ++waiting;
  return waiting;
}

void fill_tails(SearchInstance& in) {
  const int m = in.microbatches;
  for (auto& t : in.tail) t.assign(static_cast<std::size_t>(in.stages) * static_cast<std::size_t>(m), 0);
  const auto cost = [&](int kind, int s) { return in.cost[kind][static_cast<std::size_t>(s)]; };
  for (int k = m - 1; k >= 0; --k) {
    for (int s = 0; s < in.stages && in.kinds == 3; ++s) {
      const int f = first_waiting(in, in.weights_before, s, k);
      std::int64_t q = (m - 1 - k) * cost(kWeight, s) + (m - f) * (cost(kForward, s) + cost(kInput, s));
      if (f < m) q = std::max(q, cost(kForward, s) + in.tail[kForward][in.at(s, f)]);
      in.tail[kWeight][in.at(s, k)] = q;
    }
    for (int s = 0; s < in.stages; ++s) {
      const int f = first_waiting(in, in.inputs_before, s, k);
      std::int64_t q =
          (m - 1 - k) * cost(kInput, s) + (m - k) * cost(kWeight, s) + (m - f) * cost(kForward, s);
      if (f < m) q = std::max(q, cost(kForward, s) + in.tail[kForward][in.at(s, f)]);
      if (in.kinds == 3) q = std::max(q, cost(kWeight, s) + in.tail[kWeight][in.at(s, k)]);
      if (k + 1 < m) q = std::max(q, cost(kInput, s) + in.tail[kInput][in.at(s, k + 1)]);
      for (const int x : on_rank_of(in, s))
        for (const SearchInstance::Ahead& a : in.ahead[static_cast<std::size_t>(x)]) {
          const auto waiting = std::upper_bound(a.inputs.begin(), a.inputs.end(), k) - a.inputs.begin();
          if (a.later == s && waiting < m)
            q = std::max(q, cost(kForward, x) + in.tail[kForward][in.at(x, static_cast<int>(waiting))]);
        }
      if (s > 0)
        q = std::max(q, in.backward_delay[static_cast<std::size_t>(s - 1)] + cost(kInput, s - 1) +
                            in.tail[kInput][in.at(s - 1, k)]);
      in.tail[kInput][in.at(s, k)] = q;
    }
    for (int s = in.stages - 1; s >= 0; --s) {
      std::int64_t q = (m - 1 - k) * cost(kForward, s) + (m - k) * (cost(kInput, s) + cost(kWeight, s));
      if (k + 1 < m) q = std::max(q, cost(kForward, s) + in.tail[kForward][in.at(s, k + 1)]);
      q = std::max(q, cost(kInput, s) + in.tail[kInput][in.at(s, k)]);
      for (const int x : on_rank_of(in, s))
        for (const SearchInstance::Ahead& a : in.ahead[static_cast<std::size_t>(x)])
          if (a.later == s && a.room > 0 && k + a.room < m)
            q = std::max(q, cost(kForward, x) + in.tail[kForward][in.at(x, k + static_cast<int>(a.room))]);
      if (s + 1 < in.stages)
        q = std::max(q, in.forward_delay[static_cast<std::size_t>(s)] + cost(kForward, s + 1) +
                            in.tail[kForward][in.at(s + 1, k)]);
      in.tail[kForward][in.at(s, k)] = q;
    }
  }
}

}  // namespace

SearchInstance::SearchInstance(const SearchProblem& p)
    : stages(p.stage_count()), ranks(p.ranks), microbatches(p.microbatches), kinds(p.kinds()) {
  rank_of_stage.assign(p.rank_of_stage.begin(), p.rank_of_stage.end());
  stages_of_rank.resize(static_cast<std::size_t>(ranks));
  for (int s = 0; s < stages; ++s) {
    const SearchStage& stage = p.stages[static_cast<std::size_t>(s)];
    stages_of_rank[static_cast<std::size_t>(rank_of_stage[static_cast<std::size_t>(s)])].push_back(s);
    cost[kForward].push_back(stage.forward.ps);
    cost[kInput].push_back(stage.backward_input.ps);
    cost[kWeight].push_back(p.split_backward ? stage.backward_weight.ps : 0);
    activation_bytes.push_back(stage.activation_bytes);
    weight_bytes.push_back(p.split_backward ? stage.weight_bytes : 0);
  }
  for (const analysis::Time t : p.forward_delay) forward_delay.push_back(t.ps);
  for (const analysis::Time t : p.backward_delay) backward_delay.push_back(t.ps);
  for (int r = 0; r < ranks; ++r) {
    cap.push_back(p.cap(r));
    std::int64_t all = 0;
    for (const int s : stages_of_rank[static_cast<std::size_t>(r)])
      all += activation_bytes[static_cast<std::size_t>(s)] * microbatches;
    may_hold.push_back(stages_of_rank[static_cast<std::size_t>(r)].size() > 1 && cap.back() < all);
  }
  fill_memory_requirements(*this);
  fill_tails(*this);
}

SearchState view(const SearchInstance& in, std::uint16_t* counts, std::int64_t* times) {
  const auto s = static_cast<std::size_t>(in.stages), m = static_cast<std::size_t>(in.microbatches);
  SearchState st;
  for (std::size_t kind = 0; kind < 3; ++kind) st.done[kind] = counts + kind * s;
  st.held = counts + 3 * s;
  st.free = times;
  st.ready[kForward] = times + in.ranks;
  st.ready[kInput] = st.ready[kForward] + s * m;
  return st;
}

bool is_candidate(const SearchInstance& in, const SearchState& st, int s, int kind) {
  const int k = st.done[kind][s];
  if (k >= in.microbatches) return false;
  if (kind == kWeight) return k < st.done[kInput][s];
  if (kind == kInput) return k < (s + 1 == in.stages ? st.done[kForward][s] : st.done[kInput][s + 1]);
  if ((s > 0 && k >= st.done[kForward][s - 1]) || st.held[s] != 0) return false;
  const int rank = in.rank_of_stage[static_cast<std::size_t>(s)];
  const std::int64_t cap = in.cap[static_cast<std::size_t>(rank)];
  for (const SearchInstance::Ahead& a : in.ahead[static_cast<std::size_t>(s)])
    if (st.done[kForward][a.later] <= k - a.room) return false;
  return cap == kNoByteCap ||
         held_bytes(in, st, rank) + in.activation_bytes[static_cast<std::size_t>(s)] <= cap;
}

std::int64_t start_of(const SearchInstance& in, const SearchState& st, int s, int kind) {
  const std::int64_t free = st.free[in.rank_of_stage[static_cast<std::size_t>(s)]];
  if (kind == kWeight || (kind == kForward && s == 0)) return free;
  return std::max(free, st.ready[kind][in.at(s, st.done[kind][s])]);
}

std::int64_t apply(const SearchInstance& in, const SearchState& st, Move move) {
  const int s = move.stage, kind = move.kind, k = st.done[kind][s];
  const auto u = static_cast<std::size_t>(s);
  const int rank = in.rank_of_stage[u];
  const std::int64_t end = start_of(in, st, s, kind) + in.cost[kind][u];
  st.free[rank] = end;
  ++st.done[kind][s];
  if (kind == kForward) {
    if (s + 1 < in.stages)
      st.ready[kForward][in.at(s + 1, k)] = end + in.forward_delay[u];
    else
      st.ready[kInput][in.at(s, k)] = end;
    for (const int other : in.stages_of_rank[static_cast<std::size_t>(rank)])
      if (other != s) st.held[other] = 0;
  } else if (kind == kInput) {
    if (s > 0) st.ready[kInput][in.at(s - 1, k)] = end + in.backward_delay[u - 1];
    if (in.kinds == 2) ++st.done[kWeight][s];
  }
  return end;
}

}  // namespace braid::pipeline
