// Longest chains before and after everything, and which compute work is neither before nor after a
// collective.
#include <algorithm>
#include <array>

#include "analysis/bounds.h"

namespace braid::analysis {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Chains {
 public:
  Chains(const Problem& p, const ChainOptions& options) : p_(p), options_(options) {
    out_.step_head.resize(p.steps.size());
    out_.step_tail.resize(p.steps.size());
    out_.collective_head.resize(p.collectives.size());
    out_.collective_tail.resize(p.collectives.size());
    row_of_.assign(at(p.size()), -1);
    int rows = 0;
    if (options.channel_order && p.channels <= kMaxChannels) {
      for (int n = 0; n < p.size(); ++n) {
        if (p.started_by(n) >= 0) row_of_[at(n)] = rows++;
      }
    }
    rows_.resize(at(rows) * at(p.channels));
  }

  HeadsAndTails run() {
    forward();
    std::fill(rows_.begin(), rows_.end(), Time{});
    backward();
    return std::move(out_);
  }

 private:
  // Per node with starts: when each channel is free at the earliest. Too much memory where channels are many.
  static constexpr int kMaxChannels = 256;

  const Problem& p_;
  const ChainOptions& options_;
  HeadsAndTails out_;
  std::vector<int> row_of_;
  std::vector<Time> rows_;

  Time time_of(int collective) const {
    const Collective& c = p_.collectives[at(collective)];
    return options_.floors ? c.smallest_floor : c.cost.time;
  }
  // Several tensors, which may be split: then a part depends on less than the whole does.
  bool is_loose(int collective) const {
    const Collective& c = p_.collectives[at(collective)];
    return options_.floors && c.smallest_floor < c.cost.floor;
  }
  bool any_loose() const {
    for (std::size_t c = 0; c < p_.collectives.size(); ++c) {
      if (is_loose(static_cast<int>(c))) return true;
    }
    return false;
  }
  std::span<Time> row(int node) {
    if (row_of_[at(node)] < 0) return {};
    return std::span(rows_).subspan(at(row_of_[at(node)]) * at(p_.channels), at(p_.channels));
  }
  void merge(int node, int other) {
    const std::span<Time> to = row(node), from = row(other);
    if (to.empty() || from.empty()) return;
    for (std::size_t k = 0; k < to.size(); ++k) to[k] = std::max(to[k], from[k]);
  }

  void forward() {
    const bool cuts = !any_loose();
    std::vector<Time> end(at(p_.size()));  // of nodes
    std::vector<Time> complete(p_.collectives.size());
    // A node that comes after all nodes before it also comes after all their work.
    Time work_before;
    int open = 0;  // nodes without a successor so far
    std::vector<int> first_successor(at(p_.size()));
    for (int n = 0; n < p_.size(); ++n) {
      Time now;
      int closed = 0;
      for (int before : p_.predecessors(n)) {
        now = std::max(now, end[at(before)]);
        merge(n, before);
        closed += p_.successors(before).front() == n ? 1 : 0;
      }
      if (cuts && closed == open) now = std::max(now, work_before);
      open += 1 - closed;
      const std::span<Time> channels = row(n);
      for (int s = p_.first_step[at(n)]; s < p_.first_step[at(n) + 1]; ++s) {
        const Step& step = p_.steps[at(s)];
        out_.step_head[at(s)] = now;
        if (step.kind == Step::Kind::compute) {
          now += step.work;
          work_before += step.work;
        } else if (step.kind == Step::Kind::start) {
          const int channel = p_.collectives[at(step.collective)].channel;
          if (is_loose(step.collective)) now = {};
          Time begin = now;
          if (!channels.empty()) begin = std::max(begin, channels[at(channel)]);
          out_.collective_head[at(step.collective)] = begin;
          complete[at(step.collective)] = begin + time_of(step.collective);
          if (!channels.empty()) channels[at(channel)] = complete[at(step.collective)];
          if (step.blocking) {
            now = complete[at(step.collective)];
            work_before += time_of(step.collective);
          }
        } else if (step.kind == Step::Kind::wait) {
          now = std::max(now, complete[at(step.collective)]);
        }
      }
      end[at(n)] = now;
      out_.critical_path = std::max(out_.critical_path, now);
    }
    for (Time t : complete) out_.critical_path = std::max(out_.critical_path, t);
  }

  void backward() {
    const bool cuts = !any_loose();
    std::vector<Time> rest(at(p_.size()));  // from when the stream reaches the node
    Time work_after;
    int open = 0;
    for (int n = p_.size() - 1; n >= 0; --n) {
      Time after;
      int closed = 0;
      for (int next : p_.successors(n)) {
        after = std::max(after, rest[at(next)]);
        merge(n, next);
        closed += p_.predecessors(next).back() == n ? 1 : 0;
      }
      if (cuts && closed == open) after = std::max(after, work_after);
      open += 1 - closed;
      const std::span<Time> channels = row(n);
      for (int s = p_.first_step[at(n) + 1] - 1; s >= p_.first_step[at(n)]; --s) {
        const Step& step = p_.steps[at(s)];
        if (step.kind == Step::Kind::compute) {
          out_.step_tail[at(s)] = after;
          after += step.work;
          work_after += step.work;
          continue;
        }
        if (step.kind == Step::Kind::wait) {
          Time& tail = out_.collective_tail[at(step.collective)];
          tail = std::max(tail, after);
        } else if (step.kind == Step::Kind::start) {
          const int channel = p_.collectives[at(step.collective)].channel;
          if (is_loose(step.collective)) {
            after = time_of(step.collective);
            out_.collective_tail[at(step.collective)] = {};
            continue;
          }
          Time& tail = out_.collective_tail[at(step.collective)];
          if (step.blocking) tail = std::max(tail, after);
          if (!channels.empty()) tail = std::max(tail, channels[at(channel)]);
          const Time from_begin = tail + time_of(step.collective);
          if (!channels.empty()) channels[at(channel)] = from_begin;
          after = std::max(after, from_begin);
          if (step.blocking) work_after += time_of(step.collective);
        }
        out_.step_tail[at(s)] = after;
      }
      rest[at(n)] = after;
    }
  }
};

// Sets of collectives, a block at a time: one bit each.
constexpr std::size_t kWords = 8;
using Block = std::array<std::uint64_t, kWords>;

void add(Block& to, const Block& from) {
  for (std::size_t w = 0; w < kWords; ++w) to[w] |= from[w];
}
void set(Block& block, std::size_t bit) { block[bit / 64] |= std::uint64_t{1} << (bit % 64); }

}  // namespace

HeadsAndTails heads_and_tails(const Problem& problem, const ChainOptions& options) {
  return Chains(problem, options).run();
}

Beside what_runs_beside(const Problem& p) {
  Beside out;
  out.with_any.assign(p.steps.size(), 0);
  // Compute work that can run beside each, in time; no more than matters.
  std::vector<std::int64_t> beside(p.collectives.size(), 0), enough(p.collectives.size());
  for (std::size_t c = 0; c < enough.size(); ++c) {
    const CollectiveCost& cost = p.collectives[c].cost;
    enough[c] = stretched(cost.time, cost.slowdown).ps;
  }
  for (const Step& s : p.steps) {
    if (s.kind == Step::Kind::start && s.blocking) enough[at(s.collective)] = 0;  // the stream stands still
  }
  std::vector<Block> before(at(p.size())), after(at(p.size()));
  for (std::size_t first = 0; first < p.collectives.size(); first += kWords * 64) {
    const std::size_t last = std::min(p.collectives.size(), first + kWords * 64);
    const auto in_block = [&](int c) { return c >= 0 && at(c) >= first && at(c) < last; };
    // after[n]: collectives that are complete before the node begins; before[n]: those that are issued after
    // its end.
    for (int n = 0; n < p.size(); ++n) {
      Block& b = after[at(n)];
      b = {};
      for (int pred : p.predecessors(n)) {
        add(b, after[at(pred)]);
        for (const Step& s : p.steps_of(pred)) {
          const bool complete = s.kind == Step::Kind::wait || (s.kind == Step::Kind::start && s.blocking);
          if (complete && in_block(s.collective)) set(b, at(s.collective) - first);
        }
      }
    }
    for (int n = p.size() - 1; n >= 0; --n) {
      Block& b = before[at(n)];
      b = {};
      for (int succ : p.successors(n)) {
        add(b, before[at(succ)]);
        for (const Step& s : p.steps_of(succ)) {
          if (s.kind == Step::Kind::start && in_block(s.collective)) set(b, at(s.collective) - first);
        }
      }
    }
    Block any{};  // can hide something at all
    for (std::size_t c = first; c < last; ++c) {
      if (enough[c] > 0) set(any, c - first);
    }
    Block open = any;  // may still hide more
    for (int n = 0; n < p.size(); ++n) {
      // Within a node: what is issued later or has been waited for.
      Block done = after[at(n)], to_come = before[at(n)];
      for (const Step& s : p.steps_of(n)) {
        if (s.kind == Step::Kind::start && in_block(s.collective)) set(to_come, at(s.collective) - first);
      }
      for (int k = p.first_step[at(n)]; k < p.first_step[at(n) + 1]; ++k) {
        const Step& s = p.steps[at(k)];
        const std::size_t bit = s.collective < 0 ? 0 : at(s.collective) - first;
        if (s.kind == Step::Kind::start && in_block(s.collective)) {
          to_come[bit / 64] &= ~(std::uint64_t{1} << (bit % 64));
        }
        const bool complete = s.kind == Step::Kind::wait || (s.kind == Step::Kind::start && s.blocking);
        if (complete && in_block(s.collective)) set(done, bit);
        if (s.kind != Step::Kind::compute || s.work.ps == 0) continue;
        const std::int64_t time = stretched(s.work, s.slowdown).ps;
        for (std::size_t w = 0; w < kWords; ++w) {
          if ((any[w] & ~(done[w] | to_come[w])) != 0) out.with_any[at(k)] = 1;
          for (std::uint64_t bits = open[w] & ~(done[w] | to_come[w]); bits != 0; bits &= bits - 1) {
            const auto low = static_cast<std::size_t>(__builtin_ctzll(bits));
            const std::size_t c = first + w * 64 + low;
            beside[c] += time;
            if (beside[c] >= enough[c]) open[w] &= ~(std::uint64_t{1} << low);
          }
        }
      }
    }
  }
  out.most_hidden.resize(p.collectives.size());
  for (std::size_t c = 0; c < p.collectives.size(); ++c) {
    const CollectiveCost& cost = p.collectives[c].cost;
    // One more for what was rounded.
    const Time hidden{done_in({beside[c]}, cost.slowdown).ps + (beside[c] > 0 ? 1 : 0)};
    out.most_hidden[c] = std::min(cost.time, hidden);
  }
  return out;
}

}  // namespace braid::analysis
