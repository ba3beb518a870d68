#include "explain/order_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "analysis/memory_model.h"
#include "analysis/moved_orders.h"
#include "analysis/order_analysis.h"
#include "ir/dependencies.h"
#include "passes/overlap/groups.h"

namespace braid::explain {
namespace {

using namespace ir;
using namespace analysis;

bool is_order(const Dependency& d) {
  return d.hazard == Hazard::channel_order || d.hazard == Hazard::group_order;
}

// The range in which a start may go up, or a wait down.
struct Way {
  std::vector<NodeId> carried;  // nodes that move, ascending, with the start or wait itself
  NodeId end{0};                // a node that they may not pass; -1, or the number of nodes: there is none
  bool by_order = false;        // that node must stay only because of an order between collectives
};

// A place of the start or wait at which the program is faster.
struct Place {
  NodeId node;  // the start goes right before this node, the wait right after it
  Time makespan;
  std::int64_t over = 0;  // bytes above the caps
  Position step;          // at which the most is alive
};

class Finder {
 public:
  Finder(const Schedule& schedule, const CostModel& costs, const Freedom& freedom, std::string_view pass)
      : schedule_(schedule),
        costs_(costs),
        freedom_(freedom),
        pass_(pass),
        deps_(find_dependencies(schedule,
                                {.channel_order = !freedom.collectives || has_point_to_point(schedule)})),
        p_(make_problem(schedule, deps_, costs)),
        t_(simulate(p_, identity_order(p_.nodes()))),
        orders_(p_),
        most_appends_(std::max<std::int64_t>(4'000'000, std::int64_t{100} * p_.size())) {
    if (!freedom.live_cap && !freedom.planned_cap) return;
    memory_.emplace(schedule);
    std::tie(live_, planned_, std::ignore) = bytes(identity_order(p_.nodes()));
  }

  std::map<std::string, Limit> run() {
    std::vector<CollectiveId> collectives(p_.collectives.ids().begin(), p_.collectives.ids().end());
    std::ranges::stable_sort(collectives, std::ranges::greater(), [&](CollectiveId c) { return exposed(c); });
    std::map<std::string, Limit> out;
    for (const CollectiveId c : collectives) {
      cut_short_ = false;
      Limit limit = limit_of(c);
      if (cut_short_ && limit.where.empty()) limit = {.reason = LimitReason::none, .other = "not examined"};
      out[name_of_start(c)] = std::move(limit);
    }
    return out;
  }

 private:
  const Schedule& schedule_;
  const CostModel& costs_;
  const Freedom& freedom_;
  const std::string_view pass_;
  const Dependencies deps_;
  const Problem p_;
  const Timeline t_;
  MovedOrders orders_;
  const std::int64_t most_appends_;
  bool cut_short_ = false;   // some places of the present collective were not examined
  std::int64_t placed_ = 0;  // nodes of the orders whose memory was examined
  std::optional<MemoryModel> memory_;
  std::int64_t live_ = 0, planned_ = 0;  // bytes of the present order
  std::optional<std::map<std::string, Limit>> ungrouped_;

  const std::string& name_of_start(CollectiveId c) const {
    return schedule_.graph[p_.collectives[c].op].name;
  }
  Time exposed(CollectiveId c) const { return t_.collectives[c].exposed; }
  bool takes_time(NodeId node) const { return orders_.begin(node + 1) > orders_.begin(node); }
  bool exhausted() {
    if (orders_.appends() + placed_ <= most_appends_) return false;
    return cut_short_ = true;
  }

  Limit limit_of(CollectiveId c) {
    const Collective& collective = p_.collectives[c];
    const bool neither = !freedom_.starts && !freedom_.waits;
    std::vector<Place> up, down;
    if (freedom_.starts || neither) up = places_of_start(c);
    if ((freedom_.waits || neither) && collective.wait.valid()) down = places_of_wait(c);
    if (!up.empty() || !down.empty()) return limit_by(up, down, neither);
    const bool waits_only = freedom_.waits && !freedom_.starts && collective.wait.valid();
    if (in_group(collective.start) || (collective.wait.valid() && in_group(collective.wait)))
      return limit_in_group(c, waits_only);
    if (exposed(c).ps == 0) return {.reason = LimitReason::cost};
    return waits_only ? limit_of_wait(c) : limit_of_start(c);
  }

  // Given better places, returns the reason that keeps the collective from all of them, if there is one.
  Limit limit_by(const std::vector<Place>& up, const std::vector<Place>& down, bool neither) const {
    const auto better = [](const Place& a, const Place& b) {
      return std::pair(a.over, a.makespan) < std::pair(b.over, b.makespan);
    };
    const auto first = std::ranges::min_element(up, better), second = std::ranges::min_element(down, better);
    const bool is_start = second == down.end() || (first != up.end() && !better(*second, *first));
    const Place& best = is_start ? *first : *second;
    Limit limit{.where = fmt::format("{} '{}'", is_start ? "in front of" : "behind",
                                     name_of(schedule_, best.node.index))};
    if (best.over > 0) {
      limit.reason = LimitReason::memory;
      limit.bytes = best.over;
      limit.step = best.step.index;
    } else if (neither) {
      limit.reason = LimitReason::form;
      limit.other = fmt::format("{} moves no {}", pass_.empty() ? "the pass list" : pass_,
                                is_start ? "starts" : "waits");
    }
    return limit;
  }

  // The way up of a start, with the nodes that it needs and that take no time. `order`: orders between
  // collectives hold.
  Way way_up(NodeId start, bool order) const {
    Way way{{start}, {}, false};
    std::map<NodeId, bool> needed;  // node -> only by an order
    const auto need = [&](NodeId node) {
      for (const Dependency& d : deps_.predecessors(node.index)) {
        if (is_order(d) && !order) continue;
        const auto [it, added] = needed.try_emplace(NodeId{d.node}, is_order(d));
        it->second &= is_order(d);
      }
    };
    need(start);
    while (!needed.empty()) {
      const auto [node, by_order] = *needed.rbegin();
      if (takes_time(node) || by_order) {
        way.end = node;
        way.by_order = by_order;
        break;
      }
      needed.erase(node);
      way.carried.push_back(node);
      need(node);
    }
    std::ranges::sort(way.carried);
    return way;
  }

  Way way_down(NodeId wait) const {
    Way way{{wait}, NodeId{p_.size()}, false};
    std::map<NodeId, bool> needs;
    const auto add = [&](NodeId node) {
      for (const Dependency& d : deps_.successors(node.index)) {
        const auto [it, added] = needs.try_emplace(NodeId{d.node}, is_order(d));
        it->second &= is_order(d);
      }
    };
    add(wait);
    while (!needs.empty()) {
      const auto [node, by_order] = *needs.begin();
      if (takes_time(node) || communicates(node)) {
        way.end = node;
        way.by_order = by_order;
        break;
      }
      needs.erase(node);
      way.carried.push_back(node);
      add(node);
    }
    return way;
  }

  bool communicates(NodeId node) const { return p_.started_by(node).valid() || p_.waited_by(node).valid(); }

  // The earliest begin of the transfer with its start at a place on the way, from `first` on.
  Time earliest_begin(CollectiveId c, const Way& way, NodeId first = {0}) {
    const NodeId start = p_.collectives[c].start;
    first = std::max(first, way.end + 1);
    const std::span<const Step> steps = p_.steps_of(start);
    const bool stops = std::ranges::any_of(steps, &Step::blocking) ||
                       std::ranges::any_of(way.carried, [&](NodeId n) { return p_.waited_by(n).valid(); });
    if (stops || steps.size() > 1) {
      // A node that blocks the stream delays others, so a later place may be the best.
      Time begin = t_.collectives[c].begin;
      for (NodeId q = first; q < (stops ? start : std::min(start, first + 1)) && !exhausted(); ++q) {
        Order order = identity_order(p_.nodes());
        std::ranges::copy(moved(q, start, way, true), order.begin() + q.index);
        placed_ += p_.size();
        begin = std::min(begin, simulate(p_, order).collectives[c].begin);
      }
      return begin;
    }
    // The nodes before it run as they do now.
    Time begin = orders_.begin(first);
    for (const CollectiveId o : p_.collectives.ids()) {
      if (o != c && p_.collectives[o].channel == p_.collectives[c].channel && p_.collectives[o].start < first)
        begin = std::max(begin, t_.collectives[o].end);
    }
    return begin;
  }

  std::vector<Place> places_of_start(CollectiveId c) {
    const NodeId start = p_.collectives[c].start;
    const Way way = way_up(start, true);
    std::vector<Place> out;
    const bool starts = std::ranges::any_of(
        p_.collectives, [&](const Collective& o) { return o.start > way.end && o.start < start; });
    if (orders_.begin(way.end + 1) == orders_.begin(start) && !starts) return out;  // all places are the same
    for (NodeId q = start - 1; q > way.end && !exhausted(); --q) {
      if (std::ranges::binary_search(way.carried, q)) continue;
      look_at(q, q, moved(q, start, way, true), out);
    }
    return out;
  }

  // The nodes from first to last, with the carried ones in front (else at the end).
  static std::vector<NodeId> moved(NodeId first, NodeId last, const Way& way, bool up) {
    const IdRange<NodeId> all(first, last + 1);
    std::vector<NodeId> nodes(all.begin(), all.end());
    std::ranges::stable_partition(nodes,
                                  [&](NodeId n) { return std::ranges::binary_search(way.carried, n) == up; });
    return nodes;
  }

  std::vector<Place> places_of_wait(CollectiveId c) {
    const NodeId wait = p_.collectives[c].wait;
    std::vector<Place> out;
    if (!takes_time(wait)) return out;  // nor would it further down
    const Way way = way_down(wait);
    for (NodeId q = wait + 1; q < way.end && !exhausted(); ++q) {
      if (std::ranges::binary_search(way.carried, q)) continue;
      look_at(q, wait, moved(wait, q, way, false), out);
    }
    return out;
  }

  void look_at(NodeId place, NodeId first, const std::vector<NodeId>& nodes, std::vector<Place>& out) {
    const Time makespan = orders_.makespan_with(first, nodes);
    if (makespan >= orders_.makespan()) return;
    out.push_back({place, makespan});
    if (!memory_) return;
    Order order = identity_order(p_.nodes());
    std::ranges::copy(nodes, order.begin() + first.index);
    const auto [live, planned, step] = bytes(order);
    placed_ += std::int64_t{10} * p_.size();
    std::int64_t& over = out.back().over;
    if (freedom_.live_cap) over = std::max(over, live - std::max(*freedom_.live_cap, live_));
    if (freedom_.planned_cap) over = std::max(over, planned - std::max(*freedom_.planned_cap, planned_));
    out.back().step = step;
  }

  std::tuple<std::int64_t, std::int64_t, Position> bytes(OrderView order) const {
    const MemoryModel::Live live = memory_->live(order);
    return {live.peak, freedom_.planned_cap ? memory_->planned_bytes(order) : 0, live.peak_step};
  }

  bool in_group(NodeId node) const { return at(schedule_.nodes, node).kind == ScheduleNode::Kind::grouped; }

  Limit limit_in_group(CollectiveId c, bool waits_only) {
    if (!waits_only && exposed(c).ps > 0 && limit_of_queue(c).reason == LimitReason::none) {
      if (const Limit order = limit_of_order(c); order.reason != LimitReason::none) return order;
    }
    if (!ungrouped_) {
      Schedule apart = schedule_;
      while (passes::unpack_groups(apart)) {
      }
      Freedom any = freedom_;
      any.starts = any.waits = true;
      ungrouped_ = Finder(apart, costs_, any, pass_).run();
    }
    const Collective& collective = p_.collectives[c];
    Limit limit = ungrouped_->at(name_of_start(c));
    if (limit.reason == LimitReason::none && !limit.where.empty()) {
      limit.reason = LimitReason::group;
      limit.other =
          name_of(schedule_, (in_group(collective.start) ? collective.start : collective.wait).index);
    }
    return limit;
  }

  // The collective of its channel that ends when this one begins: after that, no place lets it begin earlier.
  Limit limit_of_queue(CollectiveId c) {
    const Collective& collective = p_.collectives[c];
    for (const CollectiveId o : p_.collectives.ids()) {
      const Collective& before = p_.collectives[o];
      if (before.channel != collective.channel || before.start >= collective.start ||
          t_.collectives[o].end != t_.collectives[c].begin || before.cost.time.ps == 0)
        continue;
      if (earliest_begin(c, way_up(collective.start, true), before.start + 1) < t_.collectives[c].begin)
        return {};
      const bool needed = needs(collective.start, before.start);
      return {.reason = needed ? LimitReason::data : LimitReason::order, .other = name_of_start(o)};
    }
    return {};
  }

  // The case that only an order between collectives, or groups, keeps it from beginning earlier.
  Limit limit_of_order(CollectiveId c) {
    const NodeId start = p_.collectives[c].start;
    const Way way = way_up(start, true);
    const Time now = t_.collectives[c].begin;
    if (!way.by_order || earliest_begin(c, way) < now || earliest_begin(c, way_up(start, false)) >= now)
      return {};
    return {.reason = LimitReason::order, .other = name_of(schedule_, way.end.index)};
  }

  // The case that no earlier place of the start is better.
  Limit limit_of_start(CollectiveId c) {
    if (const Limit queue = limit_of_queue(c); queue.reason != LimitReason::none) return queue;
    if (const Limit order = limit_of_order(c); order.reason != LimitReason::none) return order;
    const NodeId start = p_.collectives[c].start;
    if (earliest_begin(c, way_up(start, true)) < t_.collectives[c].begin)
      return {.reason = LimitReason::cost};
    const Way free = way_up(start, false);
    if (!free.end.valid()) return {.reason = LimitReason::boundary};
    return {.reason = LimitReason::data, .other = name_of(schedule_, free.end.index)};
  }

  // Whether the node depends on an earlier one, other than by an order between collectives.
  bool needs(NodeId node, NodeId earlier) const {
    std::vector<NodeId> look = {node};
    IdVector<int, char> seen(first_ids<int>(node - earlier + 1), 0);
    for (std::size_t k = 0; k < look.size(); ++k) {
      for (const Dependency& d : deps_.predecessors(look[k].index)) {
        const NodeId before{d.node};
        if (before == earlier && !is_order(d)) return true;
        if (before < earlier || is_order(d) || seen[before - earlier] != 0) continue;
        seen[before - earlier] = 1;
        look.push_back(before);
      }
    }
    return false;
  }

  // The case that no later place of the wait is better.
  Limit limit_of_wait(CollectiveId c) const {
    const Collective& collective = p_.collectives[c];
    if (t_.collectives[c].blocked.ps == 0) return exposed_elsewhere(c);
    const Way way = way_down(collective.wait);
    for (const NodeId n : IdRange(collective.wait + 1, way.end)) {
      if (takes_time(n)) return {.reason = LimitReason::cost};
    }
    if (way.end.index == p_.size()) return {.reason = LimitReason::boundary};
    return {.reason = way.by_order ? LimitReason::order : LimitReason::data,
            .other = name_of(schedule_, way.end.index)};
  }

  // The case that it is exposed in the wait for another one, or after the last node.
  Limit exposed_elsewhere(CollectiveId c) const {
    const CollectiveTimes& mine = t_.collectives[c];
    NodeId longest;
    Time most;
    for (NodeId n = p_.collectives[c].start; n.index < p_.size() && orders_.begin(n) < mine.end; ++n) {
      for (StepId s : p_.step_ids(n)) {
        const Step& step = p_.steps[s];
        if ((step.kind != Step::Kind::wait && !step.blocking) ||
            p_.collectives[step.collective].cost.fabric != p_.collectives[c].cost.fabric)
          continue;
        const Time both = std::min(mine.end, t_.steps[s].end) - std::max(mine.begin, t_.steps[s].begin);
        if (both <= most) continue;
        most = both;
        longest = n;
      }
    }
    if (!longest.valid()) return {.reason = LimitReason::boundary};
    return {.reason = LimitReason::order, .other = name_of(schedule_, longest.index)};
  }
};

}  // namespace

std::map<std::string, Limit> find_limits(const Schedule& schedule, const CostModel& costs,
                                         const Freedom& freedom, std::string_view pass) {
  return Finder(schedule, costs, freedom, pass).run();
}

void add_limits(OverlapReport& report, const Schedule& after, const CostModel& costs) {
  const std::map<std::string, Limit> limits = find_limits(after, costs, report.freedom, report.pass);
  for (CollectiveReport& c : report.collectives) {
    if (const auto found = limits.find(c.name); found != limits.end() && c.limit.reason == LimitReason::none)
      c.limit = found->second;
  }
}

}  // namespace braid::explain
