#include "analysis/tails.h"

#include <algorithm>
#include <array>
#include <ranges>

namespace braid::analysis {
namespace {

// Walks the steps of a node backwards; `tail` is what comes after the node. `behind(c)`: the work left on the
// channel of collective c after c, besides its wait.
template <class Behind, class Begins>
std::int64_t through(const Problem& p, NodeId node, std::int64_t tail,
                     IdVector<CollectiveId, std::int64_t>& wait_tail, Behind behind, Begins begins) {
  for (const Step& step : std::views::reverse(p.steps_of(node))) {
    switch (step.kind) {
      case Step::Kind::compute:
        tail += step.work.ps;
        break;
      case Step::Kind::wait:
        wait_tail[step.collective] = tail;
        break;
      case Step::Kind::start: {
        if (step.blocking) wait_tail[step.collective] = tail;
        const std::int64_t begin = p.collectives[step.collective].cost.time.ps +
                                   std::max(wait_tail[step.collective], behind(step.collective));
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

template <class Behind, class Begins>
NodeTails tails_along(const Problem& p, OrderView order, Behind behind, Begins begins) {
  NodeTails tails(p.nodes(), 0);
  IdVector<CollectiveId, std::int64_t> wait_tail(p.collectives.ids(), 0);
  for (const NodeId n : std::views::reverse(order)) {
    std::int64_t after = 0;
    for (const NodeId s : p.successors(n)) after = std::max(after, tails[s]);
    tails[n] = through(p, n, after, wait_tail, behind, begins);
  }
  return tails;
}

}  // namespace

NodeTails path_tails(const Problem& p) {
  return tails_along(
      p, identity_order(p.nodes()), [](CollectiveId) { return std::int64_t{0}; },
      [](CollectiveId, std::int64_t) {});
}

NodeTails channel_tails(const Problem& p, OrderView order) {
  IdVector<ChannelId, std::int64_t> channel(p.channel_ids(), 0);
  return tails_along(
      p, order, [&](CollectiveId c) { return channel[p.collectives[c].channel]; },
      [&](CollectiveId c, std::int64_t begin) { channel[p.collectives[c].channel] = begin; });
}

NodeTails aged_tails(const NodeTails& tails, OrderView reference, int window) {
  // The largest tail from each position on. It strictly decreases, so that a window of 0 gives the reference
  // itself.
  const Position end = reference.end_id();
  IdVector<Position, std::int64_t> most(reference.size() + 1, 0);
  NodeTails aged(reference.size(), 0);
  for (const Position k : std::views::reverse(reference.ids()))
    most[k] = std::max(most[k + 1] + 1, tails[reference[k]]);
  for (const Position k : reference.ids())
    aged[reference[k]] = std::max(tails[reference[k]], most[std::min(end, k + window)]);
  return aged;
}

OrderTails order_tails(const Problem& p, OrderView order) {
  OrderTails t;
  t.stream.assign(order.size() + 1, 0);
  t.collective.assign(p.collectives.ids(), 0);
  t.wait.assign(p.collectives.ids(), 0);
  IdVector<ChannelId, std::int64_t> channel(p.channel_ids(), 0);
  for (const Position k : std::views::reverse(order.ids())) {
    t.stream[k] = through(
        p, order[k], t.stream[k + 1], t.wait,
        [&](CollectiveId c) { return channel[p.collectives[c].channel]; },
        [&](CollectiveId c, std::int64_t begin) {
          channel[p.collectives[c].channel] = begin;
          t.collective[c] = begin;
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
  IdVector<CollectiveId, char> waited(p.collectives.ids(), 0);
  for (const Step& s : p.steps) {
    if (s.kind == Step::Kind::wait || (s.kind == Step::Kind::start && s.blocking)) waited[s.collective] = 1;
  }
  IdVector<CollectiveId, NodeId> virtual_of(p.collectives.ids());
  for (const CollectiveId c : waited.ids()) {
    if (waited[c] != 0) continue;
    virtual_of[c] = NodeId{out.virtuals++};
    r.steps.push_back({Step::Kind::start, false, c, {}, 1000});
    r.first_step.push_back(r.steps.end_id());
  }
  for (const NodeId n : std::views::reverse(p.nodes())) {
    for (Step step : std::views::reverse(p.steps_of(n))) {
      if (step.kind == Step::Kind::wait) {
        step.kind = Step::Kind::start;
      } else if (step.kind == Step::Kind::start && !step.blocking) {
        step.kind = Step::Kind::wait;
      }
      r.steps.push_back(step);
    }
    r.first_step.push_back(r.steps.end_id());
  }
  for (const CollectiveId c : r.collectives.ids()) {
    const Collective& was = p.collectives[c];
    const bool blocking = !was.wait.valid() && !virtual_of[c].valid();
    r.collectives[c].start = blocking                ? out.mirror(was.start)
                             : virtual_of[c].valid() ? virtual_of[c]
                                                     : out.mirror(was.wait);
    r.collectives[c].wait = blocking ? NodeId{} : out.mirror(was.start);
    r.collectives[c].release = {};
  }
  // Predecessors of n' are the successors of n; ascending again when read backwards.
  for (const CollectiveId c : virtual_of.ids()) {
    if (!virtual_of[c].valid()) continue;
    r.preds.close();
    r.succs.push_back(std::array{out.mirror(p.collectives[c].start)});
  }
  for (const NodeId n : std::views::reverse(p.nodes())) {
    std::vector<NodeId> before;
    for (const Step& s : p.steps_of(n)) {
      if (s.kind == Step::Kind::start && !s.blocking && virtual_of[s.collective].valid()) {
        before.push_back(virtual_of[s.collective]);
      }
    }
    std::ranges::sort(before);
    for (const NodeId v : before) r.preds.add(v);
    for (const NodeId succ : std::views::reverse(p.successors(n))) r.preds.add(out.mirror(succ));
    r.preds.close();
    for (const NodeId pred : std::views::reverse(p.predecessors(n))) r.succs.add(out.mirror(pred));
    r.succs.close();
  }
  return out;
}

Order ReversedProblem::order(OrderView reversed) const {
  Order out;
  out.reserve(reversed.size());
  for (const NodeId n : std::views::reverse(reversed)) {
    if (n.index >= virtuals) out.push_back(mirror(n));
  }
  return out;
}

}  // namespace braid::analysis
