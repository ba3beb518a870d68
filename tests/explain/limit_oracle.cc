#include "tests/explain/limit_oracle.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/order_analysis.h"
#include "passes/overlap/groups.h"

namespace braid::test {

using namespace passes;
using namespace analysis;

namespace {

bool is_order(const ir::Dependency& d) {
  return d.hazard == ir::Hazard::channel_order || d.hazard == ir::Hazard::group_order;
}

}  // namespace

LimitOracle::LimitOracle(const ir::Schedule& schedule, const CostModel& costs, const Freedom& freedom)
    : schedule_(schedule),
      costs_(costs),
      freedom_(freedom),
      deps_(find_dependencies(schedule,
                              {.channel_order = !freedom.collectives || has_point_to_point(schedule)})),
      p_(make_problem(schedule, deps_, costs)),
      in_order_(identity_order(p_.nodes())),
      t_(simulate(p_, in_order_)),
      memory_(schedule) {}

std::set<NodeId> LimitOracle::ancestors(NodeId node, bool orders) const {
  std::set<NodeId> found;
  std::vector<NodeId> look = {node};
  for (std::size_t k = 0; k < look.size(); ++k) {
    for (const ir::Dependency& d : deps_.predecessors(look[k].index)) {
      if ((orders || !is_order(d)) && found.insert(NodeId{d.node}).second) look.push_back(NodeId{d.node});
    }
  }
  return found;
}

std::set<NodeId> LimitOracle::descendants(NodeId node) const {
  std::set<NodeId> found;
  for (NodeId n = node + 1; n.index < p_.size(); ++n) {
    if (ancestors(n, true).contains(node)) found.insert(n);
  }
  return found;
}

bool LimitOracle::takes_time(NodeId node) const {
  return t_.steps[p_.first_step[node]].begin < t_.steps[p_.first_step[node + 1] - 1].end;
}

// Returns the order in which the start stands before `place`, with the nodes that it needs. Returns nullopt
// if one of these takes time or is needed only for an order.
std::optional<LimitOracle::Order> LimitOracle::up(NodeId start, NodeId place, bool orders) const {
  const std::set<NodeId> needed = ancestors(start, orders), by_data = ancestors(start, false);
  Order order, rest;
  for (NodeId n{0}; n < place; ++n) order.push_back(n);
  for (NodeId n = place; n <= start; ++n) {
    if (n == start || needed.contains(n)) {
      if (n != start && (takes_time(n) || !by_data.contains(n))) return std::nullopt;
      order.push_back(n);
    } else {
      rest.push_back(n);
    }
  }
  order.insert(order.end(), rest.begin(), rest.end());
  for (NodeId n = start + 1; n.index < p_.size(); ++n) order.push_back(n);
  return order;
}

// Returns the order in which the wait stands after `place`, with the nodes that need it. Returns nullopt if
// one of these takes time or communicates.
std::optional<LimitOracle::Order> LimitOracle::down(NodeId wait, NodeId place) const {
  const std::set<NodeId> need = descendants(wait);
  std::set<NodeId> moved = {wait};
  for (NodeId n = wait + 1; n <= place; ++n) {
    if (!need.contains(n)) continue;
    if (takes_time(n) || p_.started_by(n).valid() || p_.waited_by(n).valid()) return std::nullopt;
    moved.insert(n);
  }
  return moved_behind(moved, place);
}

LimitOracle::Order LimitOracle::moved_behind(const std::set<NodeId>& nodes, NodeId place) const {
  Order order;
  for (NodeId n{0}; n <= place; ++n) {
    if (!nodes.contains(n)) order.push_back(n);
  }
  order.insert(order.end(), nodes.begin(), nodes.end());
  for (NodeId n = place + 1; n.index < p_.size(); ++n) order.push_back(n);
  return order;
}

std::vector<LimitOracle::Better> LimitOracle::better(CollectiveId c) const {
  const Collective& collective = p_.collectives[c];
  const bool neither = !freedom_.starts && !freedom_.waits;
  const std::int64_t live = memory_.live(in_order_).peak, planned = memory_.planned_bytes(in_order_);
  std::vector<Better> out;
  const auto look = [&](const std::optional<Order>& order) {
    if (!order) return;
    const Time makespan = simulate_makespan(p_, *order);
    if (makespan >= t_.makespan) return;
    const MemoryModel::Live l = memory_.live(*order);
    Better b{makespan, 0, l.peak_step};
    if (freedom_.live_cap) b.over = std::max(b.over, l.peak - std::max(live, *freedom_.live_cap));
    if (freedom_.planned_cap)
      b.over = std::max(b.over, memory_.planned_bytes(*order) - std::max(planned, *freedom_.planned_cap));
    out.push_back(b);
  };
  if (freedom_.starts || neither) {
    for (NodeId q{0}; q < collective.start; ++q) look(up(collective.start, q, true));
  }
  if ((freedom_.waits || neither) && collective.wait.valid()) {
    for (NodeId q = collective.wait + 1; q.index < p_.size(); ++q) look(down(collective.wait, q));
  }
  return out;
}

Time LimitOracle::earliest(const Problem& problem, CollectiveId c, bool orders, NodeId first_place) const {
  Time first = simulate(problem, in_order_).collectives[c].begin;
  const NodeId start = problem.collectives[c].start;
  for (NodeId q = first_place; q < start; ++q) {
    if (const auto order = up(start, q, orders))
      first = std::min(first, simulate(problem, *order).collectives[c].begin);
  }
  return first;
}

NodeId LimitOracle::node_named(const std::string& name) const {
  for (NodeId n{0}; n.index < p_.size(); ++n) {
    if (ir::name_of(schedule_, n.index) == name) return n;
  }
  return {};
}

bool LimitOracle::is_grouped(NodeId node) const {
  return node.valid() && at(schedule_.nodes, node).kind == ir::ScheduleNode::Kind::grouped;
}

bool LimitOracle::tied(CollectiveId c) const {
  const CollectiveTimes& mine = t_.collectives[c];
  return std::ranges::any_of(p_.collectives.ids(), [&](CollectiveId k) {
    return k != c && p_.collectives[k].channel == p_.collectives[c].channel &&
           t_.collectives[k].end == mine.begin && mine.begin == mine.issued;
  });
}

std::string LimitOracle::refute(CollectiveId c, const Limit& limit) const {
  const Collective& collective = p_.collectives[c];
  const bool neither = !freedom_.starts && !freedom_.waits;
  const std::vector<Better> places = better(c);
  const auto fits = std::ranges::count(places, 0, &Better::over);
  if (places.empty() && (is_grouped(collective.start) || is_grouped(collective.wait)))
    return refute_ungrouped(c, limit);
  switch (limit.reason) {
    case LimitReason::none:
      return neither || fits == 0 || limit.where.empty() ? "no better place is free" : "";
    case LimitReason::form:
      return !neither || fits == 0 ? "no better place is free" : "";
    case LimitReason::memory: {
      if (places.empty() || fits > 0) return "memory is not in the way";
      const std::int64_t least = std::ranges::min(places, {}, &Better::over).over;
      if (limit.bytes != least) return fmt::format("{} bytes are too many", least);
      const bool there = std::ranges::any_of(
          places, [&](const Better& b) { return b.over == least && b.step.index == limit.step; });
      return there ? "" : "the most is alive at another step";
    }
    default:
      break;
  }
  if (!places.empty()) return fmt::format("{} places are faster", places.size());
  if (limit.reason == LimitReason::group) return "it is in no group";
  if (t_.collectives[c].exposed.ps == 0) return limit.reason == LimitReason::cost ? "" : "it is hidden";
  const bool waits_only = freedom_.waits && !freedom_.starts && collective.wait.valid();
  return waits_only ? refute_wait(c, limit) : refute_start(c, limit);
}

// No place of the group is better.
std::string LimitOracle::refute_ungrouped(CollectiveId c, const Limit& limit) const {
  const Collective& collective = p_.collectives[c];
  const bool starts = freedom_.starts || !freedom_.waits || !collective.wait.valid();
  if (starts && limit.reason == LimitReason::order && refute_start(c, limit).empty()) return "";
  ir::Schedule apart = schedule_;
  while (unpack_groups(apart)) {
  }
  Freedom any = freedom_;
  any.starts = any.waits = true;
  const LimitOracle ungrouped(apart, costs_, any);
  const auto it = std::ranges::find(ungrouped.p_.collectives, collective.op, &Collective::op);
  const CollectiveId there = ir::id_at<CollectiveId>(ir::offset_of(it - ungrouped.p_.collectives.begin()));
  const std::vector<Better> found = ungrouped.better(there);
  const bool fits = std::ranges::count(found, 0, &Better::over) > 0;
  if (limit.reason != LimitReason::group)
    return fits ? "ungrouped it is faster" : ungrouped.refute(there, limit);
  const NodeId node = node_named(limit.other);
  if (!node.valid() || (node != collective.start && node != collective.wait)) return "it is in another group";
  return fits ? "" : "ungrouped it is no faster";
}

// No place is faster; the collective is exposed.
std::string LimitOracle::refute_start(CollectiveId c, const Limit& limit) const {
  const Collective& collective = p_.collectives[c];
  const Time now = t_.collectives[c].begin;
  // Another collective occupies the channel up to this one's begin: no place after it is earlier, and if it
  // took no time, this one could begin earlier.
  for (const CollectiveId o : p_.collectives.ids()) {
    const Collective& other = p_.collectives[o];
    if (other.channel != collective.channel || other.start >= collective.start ||
        t_.collectives[o].end != now || other.cost.time.ps == 0)
      continue;
    if (earliest(p_, c, true, other.start + 1) < now) break;
    if (schedule_.graph[other.op].name != limit.other)
      return fmt::format("'{}' is in its channel before it", schedule_.graph[other.op].name);
    const bool needed = ancestors(collective.start, false).contains(other.start);
    if (limit.reason != (needed ? LimitReason::data : LimitReason::order)) return "it is of another kind";
    Problem without = p_;
    without.collectives[o].cost.time = {};
    return earliest(without, c, true, other.start + 1) < now ? ""
                                                             : "it would begin no earlier without that one";
  }
  const Time possible = earliest(p_, c, true);
  const bool room = possible < now;
  if (limit.reason == LimitReason::cost) return room ? "" : "no place lets it begin earlier";
  if (room) return fmt::format("there is room: it could begin at {} instead of {} ps", possible.ps, now.ps);
  const Time reached = t_.steps[p_.first_step[collective.start]].begin;
  if (limit.reason == LimitReason::boundary) return reached.ps == 0 ? "" : "time goes by before it";
  const NodeId node = node_named(limit.other);
  if (!node.valid() || node >= collective.start) return "there is no such node before it";
  if (limit.reason == LimitReason::order) {
    if (!up(collective.start, node + 1, true) || up(collective.start, node, true))
      return "it is not the first in the way";
    return earliest(p_, c, false) < now ? "" : "without the order it would begin no earlier";
  }
  if (!ancestors(collective.start, false).contains(node)) return "it does not need that node";
  if (t_.steps[p_.first_step[node + 1] - 1].end != reached) return "it could follow that node at once";
  Order order = in_order_;
  std::rotate(order.begin() + node.index, order.begin() + collective.start.index,
              order.begin() + collective.start.index + 1);
  return simulate(p_, order).collectives[c].begin < now ? "" : "in front of it, it would begin no earlier";
}

std::string LimitOracle::refute_wait(CollectiveId c, const Limit& limit) const {
  const Collective& collective = p_.collectives[c];
  const CollectiveTimes& times = t_.collectives[c];
  if (times.blocked.ps == 0) {
    if (limit.reason == LimitReason::boundary) return times.end == t_.makespan ? "" : "a wait is behind it";
    if (limit.reason != LimitReason::order) return "it is exposed in another wait";
    // How long each node waits while it is transferred.
    IdVector<NodeId, Time> waits(p_.nodes());
    for (NodeId n{0}; n.index < p_.size(); ++n) {
      for (const StepId s : p_.step_ids(n)) {
        const Step& step = p_.steps[s];
        const Interval& i = t_.steps[s];
        if ((step.kind == Step::Kind::wait || step.blocking) &&
            p_.collectives[step.collective].cost.fabric == collective.cost.fabric &&
            std::max(i.begin, times.begin) < std::min(i.end, times.end))
          waits[n] = std::max(waits[n], std::min(i.end, times.end) - std::max(i.begin, times.begin));
      }
    }
    const NodeId node = node_named(limit.other);
    return node.valid() && waits[node].ps > 0 && waits[node] == std::ranges::max(waits)
               ? ""
               : "it is exposed longer in another wait";
  }
  bool room = false;
  const std::set<NodeId> need = descendants(collective.wait);
  for (NodeId q = collective.wait + 1; q.index < p_.size() && down(collective.wait, q); ++q)
    room |= !need.contains(q) && takes_time(q);
  if (limit.reason == LimitReason::cost) return room ? "" : "no place lets the wait stand later";
  if (room) return "there is room";
  const auto free = [&](NodeId q) { return q == collective.wait || down(collective.wait, q).has_value(); };
  if (limit.reason == LimitReason::boundary)
    return free(NodeId{p_.size() - 1}) ? "" : "it is not the end that stops it";
  const NodeId node = node_named(limit.other);
  if (node <= collective.wait || free(node) || !free(node - 1)) return "it is not the first in the way";
  std::set<NodeId> moved = {collective.wait};
  for (NodeId n = collective.wait + 1; n < node; ++n) {
    if (need.contains(n)) moved.insert(n);
  }
  const StepId step = p_.first_step[node];
  const Timeline without = simulate(p_, moved_behind(moved, node));
  return without.steps[step].begin < t_.steps[step].begin ? "" : "that node would begin no earlier";
}

}  // namespace braid::test
