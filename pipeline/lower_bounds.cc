#include "pipeline/lower_bounds.h"

#include <algorithm>
#include <limits>

namespace braid::pipeline {

LowerBounds::LowerBounds(const SearchInstance& in) : in_(in) {
  for (auto& h : head_) h.assign(in.tail[kForward].ids(), 0);
}

// Computes the heads of all unscheduled actions, micro-batch by micro-batch. An F depends only on I and W of
// earlier micro-batches (inputs_before[k] <= k), so one sweep is enough.
void LowerBounds::fill_heads(const SearchState& st) {
  const SearchInstance& in = in_;
  for (int k = 0; k < in.microbatches; ++k) {
    for (int s = 0; s < in.stages; ++s) {
      const int f = st.done[kForward][s];
      if (k < f) continue;
      const StageMicrobatch x = in.at(s, k);
      const std::int64_t free = st.free[in.rank_of_stage[s]];
      const std::int64_t cf = in.cost[kForward][s], ci = in.cost[kInput][s], cw = in.cost[kWeight][s];
      const int need_i = in.inputs_before[x], need_w = in.weights_before[x];
      std::int64_t h = free + (k - f) * cf + std::max(0, need_i - st.done[kInput][s]) * ci +
                       std::max(0, need_w - st.done[kWeight][s]) * cw;
      if (k > f) h = std::max(h, head_[kForward][x - 1] + cf);
      if (s > 0)
        h = std::max(
            h, k < st.done[kForward][s - 1]
                   ? st.ready[kForward][x]
                   : head_[kForward][in.at(s - 1, k)] + in.cost[kForward][s - 1] + in.forward_delay[s - 1]);
      if (need_i > st.done[kInput][s]) h = std::max(h, head_[kInput][in.at(s, need_i - 1)] + ci);
      if (need_w > st.done[kWeight][s]) h = std::max(h, head_[kWeight][in.at(s, need_w - 1)] + cw);
      for (const SearchInstance::Ahead& a : in.ahead[s]) {
        const int later = k - a.room;
        if (a.room > 0 && later >= st.done[kForward][a.later])
          h = std::max(h, head_[kForward][in.at(a.later, later)] + in.cost[kForward][a.later]);
        const int need = a.inputs[k];
        if (need > st.done[kInput][a.later])
          h = std::max(h, head_[kInput][in.at(a.later, need - 1)] + in.cost[kInput][a.later]);
      }
      head_[kForward][x] = h;
    }
    for (int s = in.stages - 1; s >= 0; --s) {
      const StageMicrobatch x = in.at(s, k);
      const std::int64_t free = st.free[in.rank_of_stage[s]];
      const std::int64_t cf = in.cost[kForward][s], ci = in.cost[kInput][s], cw = in.cost[kWeight][s];
      const int f = st.done[kForward][s], i = st.done[kInput][s], w = st.done[kWeight][s];
      if (k >= i) {
        std::int64_t h = free + (k - i) * ci + std::max(0, k + 1 - f) * cf;
        if (k > i) h = std::max(h, head_[kInput][x - 1] + ci);
        if (k >= f) h = std::max(h, head_[kForward][x] + cf);
        if (s + 1 == in.stages)
          h = std::max(h, k < f ? st.ready[kInput][x] : h);
        else
          h = std::max(h, k < st.done[kInput][s + 1] ? st.ready[kInput][x]
                                                     : head_[kInput][in.at(s + 1, k)] +
                                                           in.cost[kInput][s + 1] + in.backward_delay[s]);
        head_[kInput][x] = h;
      }
      if (in.kinds == 3 && k >= w) {
        std::int64_t h = free + (k - w) * cw + std::max(0, k + 1 - f) * cf + std::max(0, k + 1 - i) * ci;
        if (k > w) h = std::max(h, head_[kWeight][x - 1] + cw);
        if (k >= i) h = std::max(h, head_[kInput][x] + ci);
        head_[kWeight][x] = h;
      }
    }
  }
}

// The makespan of Jackson's preemptive schedule of the rank's remaining actions.
std::int64_t LowerBounds::one_machine(const SearchState& st, int rank) const {
  const SearchInstance& in = in_;
  struct Queue {  // one kind of one stage: only its first action can be the best choice
    const std::int64_t* head;
    const std::int64_t* tail;
    const std::int64_t* last;
    std::int64_t cost, left;
  };
  constexpr std::size_t kInline = 24;
  Queue fixed[kInline];
  std::vector<Queue> many;
  const auto& stages = in.stages_of_rank[rank];
  if (stages.size() * 3 > kInline) many.resize(stages.size() * 3);
  Queue* const queues = many.empty() ? fixed : many.data();
  std::size_t n = 0;
  std::int64_t t = std::numeric_limits<std::int64_t>::max();
  for (const int s : stages)
    for (int kind = 0; kind < in.kinds; ++kind) {
      const int k = st.done[kind][s];
      if (k >= in.microbatches) continue;
      const StageMicrobatch x = in.at(s, k);
      const std::int64_t c = in.cost[kind][s];
      queues[n++] = {&head_[kind][x], &in.tail[kind][x], &head_[kind][x] + (in.microbatches - k), c, c};
      t = std::min(t, head_[kind][x]);
    }
  std::int64_t bound = 0;
  while (n > 0) {
    std::size_t best = n;
    std::int64_t next = std::numeric_limits<std::int64_t>::max();
    for (std::size_t j = 0; j < n; ++j) {
      if (*queues[j].head > t)
        next = std::min(next, *queues[j].head);
      else if (best == n || *queues[j].tail > *queues[best].tail)
        best = j;
    }
    if (best == n) {
      t = next;
      continue;
    }
    Queue& q = queues[best];
    if (t + q.left > next) {
      q.left -= next - t;
      t = next;
      continue;
    }
    t += q.left;
    bound = std::max(bound, t + *q.tail);
    ++q.tail;
    q.left = q.cost;
    if (++q.head == q.last) queues[best] = queues[--n];
  }
  return bound;
}

LowerBounds::Value LowerBounds::of(const SearchState& st) {
  fill_heads(st);
  Value value;
  for (int r = 0; r < in_.ranks; ++r) {
    std::int64_t next = std::numeric_limits<std::int64_t>::max();
    for (const int s : in_.stages_of_rank[r])
      for (int kind = 0; kind < in_.kinds; ++kind)
        if (st.done[kind][s] < in_.microbatches)
          next = std::min(next, head_[kind][in_.at(s, st.done[kind][s])]);
    if (next != std::numeric_limits<std::int64_t>::max()) st.free[r] = std::max(st.free[r], next);
    const std::int64_t b = std::max(st.free[r], one_machine(st, r));
    value.bound = std::max(value.bound, b);
    value.sum += b;
  }
  return value;
}

RootBounds LowerBounds::root() {
  std::vector<std::uint16_t> counts(counts_size(in_), 0);
  std::vector<std::int64_t> times(times_size(in_), 0);
  const SearchState st = view(in_, counts, times);
  fill_heads(st);
  RootBounds out;
  for (int r = 0; r < in_.ranks; ++r) {
    std::int64_t head = std::numeric_limits<std::int64_t>::max(), tail = head, work = 0;
    for (const int s : in_.stages_of_rank[r])
      for (int kind = 0; kind < in_.kinds; ++kind) {
        for (int k = 0; k < in_.microbatches; ++k) {
          const StageMicrobatch x = in_.at(s, k);
          const std::int64_t c = in_.cost[kind][s];
          head = std::min(head, head_[kind][x]);
          tail = std::min(tail, in_.tail[kind][x]);
          work += c;
          out.critical_path.ps = std::max(out.critical_path.ps, head_[kind][x] + c + in_.tail[kind][x]);
        }
      }
    if (work > 0) out.rank_work.ps = std::max(out.rank_work.ps, head + work + tail);
    out.one_machine.ps = std::max(out.one_machine.ps, one_machine(st, r));
  }
  return out;
}

}  // namespace braid::pipeline
