#include "analysis/chains.h"

#include <algorithm>
#include <bit>
#include <ranges>

#include "analysis/reach.h"

namespace braid::analysis {
namespace {

class Chains {
 public:
  Chains(const Problem& p, const ChainOptions& options) : p_(p), options_(options) {
    out_.step_head.resize(p.steps.size());
    out_.step_tail.resize(p.steps.size());
    out_.collective_head.resize(p.collectives.size());
    out_.collective_tail.resize(p.collectives.size());
    rows_.resize(p.nodes().size());
    if (options.channel_order && p.channels <= kMaxChannels) {
      for (const NodeId n : p.nodes()) {
        if (p.started_by(n).valid()) rows_[n].assign(p.channel_ids(), {});
      }
    }
  }

  HeadsAndTails run() {
    forward();
    for (Row& row : rows_) std::ranges::fill(row, Time{});
    backward();
    return std::move(out_);
  }

 private:
  // Per node with starts: when each channel is free at the earliest. Too much memory where channels are many.
  static constexpr int kMaxChannels = 256;

  const Problem& p_;
  const ChainOptions& options_;
  HeadsAndTails out_;
  using Row = IdVector<ChannelId, Time>;
  IdVector<NodeId, Row> rows_;

  Time time_of(CollectiveId collective) const {
    const Collective& c = p_.collectives[collective];
    return options_.floors ? c.smallest_floor : c.cost.time;
  }
  // Several tensors, which may be split: then a part depends on less than the whole does.
  bool is_loose(CollectiveId collective) const {
    const Collective& c = p_.collectives[collective];
    return options_.floors && c.smallest_floor < c.cost.floor;
  }
  bool any_loose() const {
    return std::ranges::any_of(p_.collectives.ids(), [&](CollectiveId c) { return is_loose(c); });
  }
  void merge(NodeId node, NodeId other) {
    Row& to = rows_[node];
    const Row& from = rows_[other];
    if (to.empty() || from.empty()) return;
    for (const ChannelId k : to.ids()) to[k] = std::max(to[k], from[k]);
  }

  void forward() {
    const bool cuts = !any_loose();
    IdVector<NodeId, Time> end(p_.nodes());  // of nodes
    IdVector<CollectiveId, Time> complete(p_.collectives.ids());
    // A node that comes after all nodes before it also comes after all their work.
    Time work_before;
    int open = 0;  // nodes without a successor so far
    for (NodeId n : p_.nodes()) {
      Time now;
      int closed = 0;
      for (NodeId before : p_.predecessors(n)) {
        now = std::max(now, end[before]);
        merge(n, before);
        closed += p_.successors(before).front() == n ? 1 : 0;
      }
      if (cuts && closed == open) now = std::max(now, work_before);
      open += 1 - closed;
      Row& channels = rows_[n];
      for (StepId s : p_.step_ids(n)) {
        const Step& step = p_.steps[s];
        out_.step_head[s] = now;
        if (step.kind == Step::Kind::compute) {
          now += step.work;
          work_before += step.work;
        } else if (step.kind == Step::Kind::start) {
          const ChannelId channel = p_.collectives[step.collective].channel;
          if (is_loose(step.collective)) now = {};
          Time begin = now;
          if (!channels.empty()) begin = std::max(begin, channels[channel]);
          out_.collective_head[step.collective] = begin;
          complete[step.collective] = begin + time_of(step.collective);
          if (!channels.empty()) channels[channel] = complete[step.collective];
          if (step.blocking) {
            now = complete[step.collective];
            work_before += time_of(step.collective);
          }
        } else if (step.kind == Step::Kind::wait) {
          now = std::max(now, complete[step.collective]);
        }
      }
      end[n] = now;
      out_.critical_path = std::max(out_.critical_path, now);
    }
    for (Time t : complete) out_.critical_path = std::max(out_.critical_path, t);
  }

  void backward() {
    const bool cuts = !any_loose();
    IdVector<NodeId, Time> rest(p_.nodes());  // from when the stream reaches the node
    Time work_after;
    int open = 0;
    for (const NodeId n : std::views::reverse(p_.nodes())) {
      Time after;
      int closed = 0;
      for (NodeId next : p_.successors(n)) {
        after = std::max(after, rest[next]);
        merge(n, next);
        closed += p_.predecessors(next).back() == n ? 1 : 0;
      }
      if (cuts && closed == open) after = std::max(after, work_after);
      open += 1 - closed;
      Row& channels = rows_[n];
      for (const StepId s : std::views::reverse(p_.step_ids(n))) {
        const Step& step = p_.steps[s];
        if (step.kind == Step::Kind::compute) {
          out_.step_tail[s] = after;
          after += step.work;
          work_after += step.work;
          continue;
        }
        if (step.kind == Step::Kind::wait) {
          Time& tail = out_.collective_tail[step.collective];
          tail = std::max(tail, after);
        } else if (step.kind == Step::Kind::start) {
          const ChannelId channel = p_.collectives[step.collective].channel;
          if (is_loose(step.collective)) {
            after = time_of(step.collective);
            out_.collective_tail[step.collective] = {};
            continue;
          }
          Time& tail = out_.collective_tail[step.collective];
          if (step.blocking) tail = std::max(tail, after);
          if (!channels.empty()) tail = std::max(tail, channels[channel]);
          const Time from_begin = tail + time_of(step.collective);
          if (!channels.empty()) channels[channel] = from_begin;
          after = std::max(after, from_begin);
          if (step.blocking) work_after += time_of(step.collective);
        }
        out_.step_tail[s] = after;
      }
      rest[n] = after;
    }
  }
};

}  // namespace

HeadsAndTails heads_and_tails(const Problem& problem, const ChainOptions& options) {
  return Chains(problem, options).run();
}

namespace {

// The compute work, in time, that hides each collective whole.
IdVector<CollectiveId, std::int64_t> enough_beside(const Problem& p) {
  IdVector<CollectiveId, std::int64_t> enough(p.collectives.ids());
  for (const CollectiveId c : enough.ids()) {
    const CollectiveCost& cost = p.collectives[c].cost;
    enough[c] = stretched(cost.time, cost.slowdown).ps;
  }
  for (const Step& s : p.steps) {
    if (s.kind == Step::Kind::start && s.blocking) enough[s.collective] = 0;  // the stream stands still
  }
  return enough;
}

}  // namespace

Beside what_runs_beside(const Problem& p) {
  Beside out;
  out.with_any.assign(p.steps.ids(), 0);
  // Compute work that can run beside each, in time; no more than matters.
  IdVector<CollectiveId, std::int64_t> beside(p.collectives.ids(), 0);
  const IdVector<CollectiveId, std::int64_t> enough = enough_beside(p);
  const auto starts = [](const Step& s) { return s.kind == Step::Kind::start; };
  const auto completes = [](const Step& s) {
    return s.kind == Step::Kind::wait || (s.kind == Step::Kind::start && s.blocking);
  };
  IdVector<NodeId, CollectiveSet> before, after;
  each_block(p, [&](CollectiveId first, CollectiveId last) {
    // after[n]: collectives that are complete before the node begins; before[n]: those that are issued after
    // its end.
    gather(p, Side::before, first, last, completes, after);
    gather(p, Side::behind, first, last, starts, before);
    const auto in_block = [&](CollectiveId c) { return c >= first && c < last; };
    CollectiveSet any;  // can hide something at all
    for (const CollectiveId c : IdRange(first, last)) {
      if (enough[c] > 0) any.set(c - first);
    }
    CollectiveSet::Words open = any.words();  // may still hide more
    for (const NodeId n : p.nodes()) {
      // Within a node: what is issued later or has been waited for.
      CollectiveSet done = after[n], to_come = before[n];
      for (const Step& s : p.steps_of(n)) {
        if (starts(s) && in_block(s.collective)) to_come.set(s.collective - first);
      }
      for (const StepId k : p.step_ids(n)) {
        const Step& s = p.steps[k];
        if (starts(s) && in_block(s.collective)) to_come.reset(s.collective - first);
        if (completes(s) && in_block(s.collective)) done.set(s.collective - first);
        if (s.kind != Step::Kind::compute || s.work.ps == 0) continue;
        const std::int64_t time = stretched(s.work, s.slowdown).ps;
        CollectiveId of_word = first;
        for (std::size_t w = 0; w < open.size(); ++w, of_word = of_word + 64) {
          const std::uint64_t neither = ~(done.words()[w] | to_come.words()[w]);
          if ((any.words()[w] & neither) != 0) out.with_any[k] = 1;
          for (std::uint64_t bits = open[w] & neither; bits != 0; bits &= bits - 1) {
            const CollectiveId c = of_word + std::countr_zero(bits);
            beside[c] += time;
            if (beside[c] >= enough[c]) open[w] &= ~(bits & -bits);
          }
        }
      }
    }
  });
  out.most_hidden.resize(p.collectives.size());
  for (CollectiveId c : p.collectives.ids()) {
    const CollectiveCost& cost = p.collectives[c].cost;
    // One more for what was rounded.
    const Time hidden{done_in({beside[c]}, cost.slowdown).ps + (beside[c] > 0 ? 1 : 0)};
    out.most_hidden[c] = std::min(cost.time, hidden);
  }
  return out;
}

}  // namespace braid::analysis
