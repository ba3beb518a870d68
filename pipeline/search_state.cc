#include "pipeline/search_state.h"

#include <algorithm>

namespace braid::pipeline {
namespace {

// A number of micro-batches: the least n with n * each >= bytes.
int at_least(std::int64_t bytes, std::int64_t each) {
  return bytes <= 0 ? 0 : static_cast<int>((bytes + each - 1) / each);
}

const std::vector<int>& on_rank_of(const SearchInstance& in, int s) {
  return in.stages_of_rank[in.rank_of_stage[s]];
}

// When F of micro-batch k of stage s starts, the rank's earlier stages have run at least as many F and at
// most as many I. They hold at least as many micro-batches, so each one that the stage holds takes `below`
// bytes, those of the earlier stages and its own. Later stages can only take more.
void fill_memory_requirements(SearchInstance& in) {
  const auto all = first_ids<StageMicrobatch>(in.stages * in.microbatches);
  in.inputs_before.assign(all, 0);
  in.weights_before.assign(all, 0);
  in.ahead.resize(in.rank_of_stage.size());
  for (const int s : in.rank_of_stage.ids()) {
    const std::vector<int>& neighbours = on_rank_of(in, s);
    const std::int64_t cap = in.cap[in.rank_of_stage[s]], bytes = in.activation_bytes[s],
                       kept = in.weight_bytes[s];
    if (cap == kNoByteCap) continue;
    std::int64_t below = 0;
    for (const int x : neighbours)
      if (x <= s) below += in.activation_bytes[x];
    if (below == 0) continue;
    for (int k = 0; k < in.microbatches; ++k) {
      // The least i with (k+1 - i) below <= cap, if all possible W are done.
      in.inputs_before[in.at(s, k)] = at_least((k + 1) * below - cap, below);
      // The least w with bytes + (k - w) kept <= cap, if all possible I are done.
      if (kept > 0) in.weights_before[in.at(s, k)] = at_least(bytes + k * kept - cap, kept);
    }
    // When F of micro-batch j of a later stage starts, no stage of the rank has run I of j or later. If F of
    // k >= j has run here: (k+1 - j) below + one micro-batch of each stage after s up to it <= cap.
    std::int64_t between = 0;
    for (const int x : neighbours) {
      if (x <= s) continue;
      between += in.activation_bytes[x];
      const std::int64_t fitting = cap < between ? 0 : (cap - between) / below;
      if (fitting >= in.microbatches) continue;
      const int room = static_cast<int>(fitting);
      // So the later stage has run k+1 - room F by then, i of their I, no stage below more than i:
      // (k+1 - i) below + (k+1 - room - i) its bytes <= cap, or i >= k+1 - room.
      SearchInstance::Ahead ahead{x, room, {}};
      const std::int64_t later = in.activation_bytes[x];
      for (int k = 0; k < in.microbatches; ++k) {
        const int i = at_least((k + 1) * below + (k + 1 - room) * later - cap, below + later);
        ahead.inputs.push_back(std::clamp(std::min(i, k + 1 - room), 0, k));
      }
      in.ahead[s].push_back(std::move(ahead));
    }
  }
}

// The first micro-batch whose F requires more than k by `before`; the number of micro-batches if none does.
int first_waiting(const SearchInstance& in, const IdVector<StageMicrobatch, int>& before, int s, int k) {
  int waiting = k + 1;
  while (waiting < in.microbatches && before[in.at(s, waiting)] <= k) ++waiting;
  return waiting;
}

void fill_tails(SearchInstance& in) {
  const int m = in.microbatches;
  for (auto& t : in.tail) t.assign(in.inputs_before.ids(), 0);
  const auto cost = [&](int kind, int s) { return in.cost[kind][s]; };
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
        for (const SearchInstance::Ahead& a : in.ahead[x]) {
          const auto waiting = std::ranges::upper_bound(a.inputs, k) - a.inputs.begin();
          if (a.later == s && waiting < m)
            q = std::max(q, cost(kForward, x) + in.tail[kForward][in.at(x, static_cast<int>(waiting))]);
        }
      if (s > 0)
        q = std::max(q, in.backward_delay[s - 1] + cost(kInput, s - 1) + in.tail[kInput][in.at(s - 1, k)]);
      in.tail[kInput][in.at(s, k)] = q;
    }
    for (int s = in.stages - 1; s >= 0; --s) {
      std::int64_t q = (m - 1 - k) * cost(kForward, s) + (m - k) * (cost(kInput, s) + cost(kWeight, s));
      if (k + 1 < m) q = std::max(q, cost(kForward, s) + in.tail[kForward][in.at(s, k + 1)]);
      q = std::max(q, cost(kInput, s) + in.tail[kInput][in.at(s, k)]);
      for (const int x : on_rank_of(in, s))
        for (const SearchInstance::Ahead& a : in.ahead[x])
          if (a.later == s && a.room > 0 && k + a.room < m)
            q = std::max(q, cost(kForward, x) + in.tail[kForward][in.at(x, k + a.room)]);
      if (s + 1 < in.stages)
        q = std::max(q, in.forward_delay[s] + cost(kForward, s + 1) + in.tail[kForward][in.at(s + 1, k)]);
      in.tail[kForward][in.at(s, k)] = q;
    }
  }
}

}  // namespace

SearchInstance::SearchInstance(const SearchProblem& p)
    : stages(p.stage_count()),
      ranks(p.ranks),
      microbatches(p.microbatches),
      kinds(p.kinds()),
      rank_of_stage(p.rank_of_stage) {
  stages_of_rank.assign(first_ids<int>(ranks), {});
  for (const int s : p.stages.ids()) {
    const SearchStage& stage = p.stages[s];
    stages_of_rank[rank_of_stage[s]].push_back(s);
    cost[kForward].push_back(stage.forward.ps);
    cost[kInput].push_back(stage.backward_input.ps);
    cost[kWeight].push_back(p.split_backward ? stage.backward_weight.ps : 0);
    activation_bytes.push_back(stage.activation_bytes);
    weight_bytes.push_back(p.split_backward ? stage.weight_bytes : 0);
  }
  for (const analysis::Time t : p.forward_delay) forward_delay.push_back(t.ps);
  for (const analysis::Time t : p.backward_delay) backward_delay.push_back(t.ps);
  for (const int r : stages_of_rank.ids()) {
    cap.push_back(p.cap(r));
    std::int64_t all = 0;
    for (const int s : stages_of_rank[r]) all += activation_bytes[s] * microbatches;
    may_hold.push_back(stages_of_rank[r].size() > 1 && cap.back() < all);
  }
  fill_memory_requirements(*this);
  fill_tails(*this);
}

SearchState view(const SearchInstance& in, std::span<std::uint16_t> counts, std::span<std::int64_t> times) {
  const std::size_t stages = in.rank_of_stage.size(), ranks = in.cap.size(), n = in.tail[kForward].size();
  return {{counts.first(stages), counts.subspan(stages, stages), counts.subspan(2 * stages, stages)},
          counts.subspan(3 * stages),
          times.first(ranks),
          {times.subspan(ranks, n), times.subspan(ranks + n)}};
}

bool is_candidate(const SearchInstance& in, const SearchState& st, int s, int kind) {
  const int k = st.done[kind][s];
  if (k >= in.microbatches) return false;
  if (kind == kWeight) return k < st.done[kInput][s];
  if (kind == kInput) return k < (s + 1 == in.stages ? st.done[kForward][s] : st.done[kInput][s + 1]);
  if ((s > 0 && k >= st.done[kForward][s - 1]) || st.held[s] != 0) return false;
  const int rank = in.rank_of_stage[s];
  const std::int64_t cap = in.cap[rank];
  for (const SearchInstance::Ahead& a : in.ahead[s])
    if (st.done[kForward][a.later] <= k - a.room) return false;
  return cap == kNoByteCap || held_bytes(in, st, rank) + in.activation_bytes[s] <= cap;
}

std::int64_t start_of(const SearchInstance& in, const SearchState& st, int s, int kind) {
  const std::int64_t free = st.free[in.rank_of_stage[s]];
  if (kind == kWeight || (kind == kForward && s == 0)) return free;
  return std::max(free, st.ready[kind][in.at(s, st.done[kind][s])]);
}

std::int64_t apply(const SearchInstance& in, const SearchState& st, Move move) {
  const int s = move.stage, kind = move.kind, k = st.done[kind][s];
  const int rank = in.rank_of_stage[s];
  const std::int64_t end = start_of(in, st, s, kind) + in.cost[kind][s];
  st.free[rank] = end;
  ++st.done[kind][s];
  if (kind == kForward) {
    if (s + 1 < in.stages)
      st.ready[kForward][in.at(s + 1, k)] = end + in.forward_delay[s];
    else
      st.ready[kInput][in.at(s, k)] = end;
    for (const int other : in.stages_of_rank[rank])
      if (other != s) st.held[other] = 0;
  } else if (kind == kInput) {
    if (s > 0) st.ready[kInput][in.at(s - 1, k)] = end + in.backward_delay[s - 1];
    if (in.kinds == 2) ++st.done[kWeight][s];
  }
  return end;
}

}  // namespace braid::pipeline
