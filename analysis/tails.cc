#include "analysis/tails.h"

#include <algorithm>

namespace braid::analysis {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// The steps of a node backwards, from `tail` on, which is what comes after it. `behind(c)`: what its channel
// has to do when collective c is complete, besides its wait.
template <class Behind, class Begins>
std::int64_t through(const Problem& p, int node, std::int64_t tail, std::vector<std::int64_t>& wait_tail,
                     Behind behind, Begins begins) {
  for (int s = p.first_step[at(node) + 1]; s-- > p.first_step[at(node)];) {
    const Step& step = p.steps[at(s)];
    switch (step.kind) {
      case Step::Kind::compute:
        tail += step.work.ps;
        break;
      case Step::Kind::wait:
        wait_tail[at(step.collective)] = tail;
        break;
      case Step::Kind::start: {
        if (step.blocking) wait_tail[at(step.collective)] = tail;
        const std::int64_t begin = p.collectives[at(step.collective)].cost.time.ps +
                                   std::max(wait_tail[at(step.collective)], behind(step.collective));
        begins(step.collective, begin);
        tail = std::max(tail, begin);
        break;
      }
      case Step::Kind::release:
        break;
    }
  }
  return tail;
}

}  // namespace

std::vector<std::int64_t> path_tails(const Problem& p) {
  std::vector<std::int64_t> tails(at(p.size()), 0), wait_tail(p.collectives.size(), 0);
  for (int n = p.size(); n-- > 0;) {
    std::int64_t after = 0;
    for (int s : p.successors(n)) after = std::max(after, tails[at(s)]);
    tails[at(n)] = through(
        p, n, after, wait_tail, [](int) { return std::int64_t{0}; }, [](int, std::int64_t) {});
  }
  return tails;
}

std::vector<std::int64_t> channel_tails(const Problem& p, std::span<const int> order) {
  std::vector<std::int64_t> tails(at(p.size()), 0), wait_tail(p.collectives.size(), 0),
      channel(at(p.channels), 0);
  for (std::size_t k = order.size(); k-- > 0;) {
    const int n = order[k];
    std::int64_t after = 0;
    for (int s : p.successors(n)) after = std::max(after, tails[at(s)]);
    tails[at(n)] = through(
        p, n, after, wait_tail, [&](int c) { return channel[at(p.collectives[at(c)].channel)]; },
        [&](int c, std::int64_t begin) { channel[at(p.collectives[at(c)].channel)] = begin; });
  }
  return tails;
}

std::vector<std::int64_t> aged_tails(std::span<const std::int64_t> tails, std::span<const int> reference,
                                     int window) {
  // The most urgent from each position on; strictly falling, so that a window of nothing is the reference
  // itself.
  const std::size_t n = reference.size();
  std::vector<std::int64_t> most(n + 1, 0), aged(n, 0);
  for (std::size_t k = n; k-- > 0;) most[k] = std::max(most[k + 1] + 1, tails[at(reference[k])]);
  for (std::size_t k = 0; k < n; ++k) {
    aged[at(reference[k])] = std::max(tails[at(reference[k])], most[std::min(n, k + at(window))]);
  }
  return aged;
}

OrderTails order_tails(const Problem& p, std::span<const int> order) {
  OrderTails t;
  t.stream.assign(order.size() + 1, 0);
  t.collective.assign(p.collectives.size(), 0);
  t.wait.assign(p.collectives.size(), 0);
  std::vector<std::int64_t> channel(at(p.channels), 0);
  for (std::size_t k = order.size(); k-- > 0;) {
    t.stream[k] = through(
        p, order[k], t.stream[k + 1], t.wait,
        [&](int c) { return channel[at(p.collectives[at(c)].channel)]; },
        [&](int c, std::int64_t begin) {
          channel[at(p.collectives[at(c)].channel)] = begin;
          t.collective[at(c)] = begin;
        });
  }
  return t;
}

ReversedProblem reversed(const Problem& p) {
  ReversedProblem out;
  Problem& r = out.problem;
  r.collectives = p.collectives;
  r.channels = p.channels;
  r.fabrics = p.fabrics;
  std::vector<char> waited(p.collectives.size(), 0);
  for (const Step& s : p.steps) {
    if (s.kind == Step::Kind::wait || (s.kind == Step::Kind::start && s.blocking))
      waited[at(s.collective)] = 1;
  }
  std::vector<int> virtual_of(p.collectives.size(), -1);
  for (std::size_t c = 0; c < waited.size(); ++c) {
    if (waited[c] != 0) continue;
    virtual_of[c] = out.virtuals++;
    r.steps.push_back({Step::Kind::start, false, static_cast<int>(c), {}, 1000});
    r.first_step.push_back(static_cast<int>(r.steps.size()));
  }
  const int last = out.virtuals + p.size() - 1;
  for (int n = p.size(); n-- > 0;) {
    for (int s = p.first_step[at(n) + 1]; s-- > p.first_step[at(n)];) {
      Step step = p.steps[at(s)];
      if (step.kind == Step::Kind::wait) {
        step.kind = Step::Kind::start;
      } else if (step.kind == Step::Kind::start && !step.blocking) {
        step.kind = Step::Kind::wait;
      }
      r.steps.push_back(step);
    }
    r.first_step.push_back(static_cast<int>(r.steps.size()));
  }
  for (std::size_t c = 0; c < r.collectives.size(); ++c) {
    const Collective& was = p.collectives[c];
    const bool blocking = was.wait < 0 && virtual_of[c] < 0;
    r.collectives[c].start = blocking             ? last - was.start
                             : virtual_of[c] >= 0 ? virtual_of[c]
                                                  : last - was.wait;
    r.collectives[c].wait = blocking ? -1 : last - was.start;
    r.collectives[c].release = -1;
  }
  // Predecessors of n' are the successors of n; ascending again when read backwards.
  for (int v = 0; v < out.virtuals; ++v) {
    r.first_pred.push_back(0);
    r.succs.push_back(0);
    r.first_succ.push_back(v + 1);
  }
  for (std::size_t c = 0; c < virtual_of.size(); ++c) {
    if (virtual_of[c] >= 0) r.succs[at(virtual_of[c])] = last - p.collectives[c].start;
  }
  for (int n = p.size(); n-- > 0;) {
    std::vector<int> before;
    for (const Step& s : p.steps_of(n)) {
      if (s.kind == Step::Kind::start && !s.blocking && virtual_of[at(s.collective)] >= 0) {
        before.push_back(virtual_of[at(s.collective)]);
      }
    }
    std::sort(before.begin(), before.end());
    r.preds.insert(r.preds.end(), before.begin(), before.end());
    const auto succs = p.successors(n);
    for (std::size_t k = succs.size(); k-- > 0;) r.preds.push_back(last - succs[k]);
    r.first_pred.push_back(static_cast<int>(r.preds.size()));
    const auto preds = p.predecessors(n);
    for (std::size_t k = preds.size(); k-- > 0;) r.succs.push_back(last - preds[k]);
    r.first_succ.push_back(static_cast<int>(r.succs.size()));
  }
  return out;
}

std::vector<int> ReversedProblem::order(std::span<const int> reversed) const {
  std::vector<int> out;
  out.reserve(reversed.size());
  const int last = problem.size() - 1;
  for (std::size_t k = reversed.size(); k-- > 0;) {
    if (reversed[k] >= virtuals) out.push_back(last - reversed[k]);
  }
  return out;
}

}  // namespace braid::analysis
