#include "passes/overlap/groups.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "ir/dependencies.h"
#include "ir/error.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace analysis;

// Topological order of units: nodes outside of groups, and groups. Unit k < nodes is a node, unit nodes + g
// is group g.
class Contraction {
 public:
  Contraction(const Schedule& schedule, const IdVector<int, NewGroup>& groups)
      : deps_(find_dependencies(schedule)), groups_(groups), nodes_(deps_.size()) {
    const IdRange<int> nodes = first_ids<int>(nodes_), units = first_ids<int>(nodes_ + groups.end_id());
    unit_.Base::assign(nodes.begin(), nodes.end());
    key_.Base::assign(units.begin(), units.end());
    for (const int g : groups.ids()) {
      key_[nodes_ + g] = -1;
      for (const NodeId m : groups[g].members) {
        internal_check(unit_[m.index] == m.index, "a node is in two groups");
        unit_[m.index] = nodes_ + g;
        key_[nodes_ + g] = std::max(key_[nodes_ + g], m.index);
      }
    }
    after_.resize(groups.size());
    before_.resize(groups.size());
    for (const int g : groups.ids()) {
      for (int a : groups[g].after) {
        after_[g].push_back(a);
        before_[a].push_back(g);
      }
    }
    missing_.assign(units, 0);
    done_.assign(units, 0);
    alive_.assign(units, 1);
    for (const int n : nodes) {
      if (unit_[n] != n) alive_[n] = 0;
    }
    for (const int g : groups.ids()) {
      if (groups[g].members.empty()) alive_[nodes_ + g] = 0;
    }
  }

  // Units in order; afterwards `made` and `dropped` tell which groups and order-only dependencies remain.
  std::vector<int> run() {
    std::vector<int> order = pass();
    if (!broken_) return order;
    // The second pass knows what had to give way, so nothing runs ahead of what a cycle delayed.
    done_.assign(done_.ids(), 0);
    return pass();
  }

  bool made(int group) const { return alive_[nodes_ + group] != 0; }
  const std::vector<int>& after(int group) const { return after_[group]; }
  const std::vector<std::pair<int, int>>& dropped() const { return dropped_; }

 private:
  std::vector<int> pass() {
    for (const int unit : alive_.ids()) {
      if (alive_[unit] == 0) continue;
      missing_[unit] = count_missing(unit);
      if (missing_[unit] == 0) push(unit);
    }
    std::vector<int> order;
    int first = 0;  // no living unit before it is left
    for (;;) {
      while (!ready_.empty()) {
        const int unit = ready_.top().second;
        ready_.pop();
        done_[unit] = 1;
        order.push_back(unit);
        for_each_successor(unit, [&](int s) {
          if (--missing_[s] == 0) push(s);
        });
      }
      while (first < alive_.end_id() && (alive_[first] == 0 || done_[first] != 0)) ++first;
      if (first == alive_.end_id()) break;
      break_cycle(first);
      first = 0;  // members of a group that was given up live again
    }
    return order;
  }

  const Dependencies deps_;
  const IdVector<int, NewGroup>& groups_;
  const int nodes_;
  IdVector<int, int> unit_, key_, missing_;
  IdVector<int, char> done_, alive_;
  bool broken_ = false;                             // a cycle was found
  IdVector<int, std::vector<int>> after_, before_;  // order-only, of groups
  std::vector<std::pair<int, int>> dropped_;
  using Entry = std::pair<int, int>;  // key, unit
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready_;

  void push(int unit) { ready_.emplace(key_[unit], unit); }

  template <class F>
  void for_each_node(int unit, F&& f) const {
    if (unit < nodes_) {
      f(unit);
    } else {
      for (const NodeId m : groups_[unit - nodes_].members) f(m.index);
    }
  }
  // Calls f once per dependency, with order-only ones of groups last.
  template <class F>
  void for_each_predecessor(int unit, F&& f) const {
    for_each_node(unit, [&](int n) {
      for (const Dependency& d : deps_.predecessors(n)) {
        if (unit_[d.node] != unit) f(unit_[d.node]);
      }
    });
    if (unit < nodes_) return;
    for (int a : after_[unit - nodes_]) f(nodes_ + a);
  }
  template <class F>
  void for_each_successor(int unit, F&& f) const {
    for_each_node(unit, [&](int n) {
      for (const Dependency& d : deps_.successors(n)) {
        if (unit_[d.node] != unit) f(unit_[d.node]);
      }
    });
    if (unit < nodes_) return;
    for (int b : before_[unit - nodes_]) f(nodes_ + b);
  }

  int count_missing(int unit) const {
    int n = 0;
    for_each_predecessor(unit, [&](int p) { n += done_[p] != 0 ? 0 : 1; });
    return n;
  }

  // Nothing is ready: from any remaining unit, the remaining predecessors lead into a cycle.
  void break_cycle(int from) {
    broken_ = true;
    std::vector<int> path;
    IdVector<int, char> seen(alive_.ids(), 0);
    int at = from;
    while (seen[at] == 0) {
      seen[at] = 1;
      path.push_back(at);
      int next = -1;
      for_each_predecessor(at, [&](int p) {
        if (next < 0 && done_[p] == 0) next = p;
      });
      internal_check(next >= 0, "a unit that waits for nothing is not ready");
      at = next;
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    // Drops an order-only dependency if there is one, otherwise the last group of the cycle.
    for (std::size_t k = 0; k < path.size(); ++k) {
      const int later = path[k] - nodes_, earlier = path[(k + 1) % path.size()] - nodes_;
      if (later < 0 || earlier < 0 || !std::ranges::count(after_[later], earlier)) continue;
      return drop(later, earlier);
    }
    int last = -1;
    for (int unit : path) {
      if (unit >= nodes_ && (last < 0 || key_[unit] > key_[last])) last = unit;
    }
    internal_check(last >= 0, "dependencies with a cycle");
    give_up(last);
  }

  void drop(int later, int earlier) {
    std::erase(after_[later], earlier);
    std::erase(before_[earlier], later);
    dropped_.emplace_back(later, earlier);
    if (--missing_[nodes_ + later] == 0) push(nodes_ + later);
  }

  void give_up(int unit) {
    const int g = unit - nodes_;
    for (int a : std::vector<int>(after_[g])) {
      std::erase(after_[g], a);
      std::erase(before_[a], g);
    }
    for (int b : std::vector<int>(before_[g])) {
      std::erase(after_[b], g);
      if (--missing_[nodes_ + b] == 0) push(nodes_ + b);
    }
    before_[g].clear();
    alive_[unit] = 0;
    for (const NodeId m : groups_[g].members) {
      unit_[m.index] = m.index;
      alive_[m.index] = 1;
    }
    for (const NodeId m : groups_[g].members) {
      missing_[m.index] = count_missing(m.index);
      if (missing_[m.index] == 0) push(m.index);
    }
  }
};

}  // namespace

bool Grouping::any() const {
  return std::ranges::any_of(names, [](const std::string& n) { return !n.empty(); });
}

Grouping group_nodes(Schedule& schedule, std::vector<NewGroup> new_groups) {
  IdVector<int, NewGroup> groups(std::move(new_groups));
  for (NewGroup& g : groups) {
    std::sort(g.members.begin(), g.members.end());
    for (const NodeId m : g.members) {
      internal_check(at(schedule.nodes, m).kind != ScheduleNode::Kind::grouped, "a group inside of a group");
    }
    std::sort(g.after.begin(), g.after.end());
    g.after.erase(std::unique(g.after.begin(), g.after.end()), g.after.end());
  }
  Contraction contraction(schedule, groups);
  const std::vector<int> order = contraction.run();

  Grouping out;
  out.names.resize(groups.size());
  out.dropped = contraction.dropped();
  for (const int g : groups.ids()) {
    if (contraction.made(g)) at(out.names, g) = schedule.graph.op_names.unique(groups[g].name, "group");
  }
  if (!out.any()) return out;
  const int nodes = count_of(schedule.nodes);
  std::vector<ScheduleNode> result;
  for (int unit : order) {
    if (unit < nodes) {
      result.push_back(std::move(at(schedule.nodes, unit)));
      continue;
    }
    const int g = unit - nodes;
    ScheduleNode node{ScheduleNode::Kind::grouped, at(out.names, g), {}, {}};
    for (const NodeId m : groups[g].members) node.members.push_back(std::move(at(schedule.nodes, m)));
    for (int a : contraction.after(g)) node.after.push_back(at(out.names, a));
    result.push_back(std::move(node));
  }
  schedule.nodes = std::move(result);
  schedule.plan.reset();
  return out;
}

bool unpack_groups(Schedule& schedule, const std::set<std::string>& names) {
  const auto chosen = [&](const ScheduleNode& n) {
    return n.kind == ScheduleNode::Kind::grouped && names.contains(n.name);
  };
  if (std::ranges::none_of(schedule.nodes, chosen)) return false;
  std::vector<ScheduleNode> result;
  for (ScheduleNode& node : schedule.nodes) {
    std::erase_if(node.after, [&](const std::string& name) { return names.contains(name); });
    if (chosen(node)) {
      std::move(node.members.begin(), node.members.end(), std::back_inserter(result));
    } else {
      result.push_back(std::move(node));
    }
  }
  schedule.nodes = std::move(result);
  schedule.plan.reset();
  return true;
}

bool unpack_groups(Schedule& schedule) {
  std::set<std::string> names;
  for (const ScheduleNode& n : schedule.nodes) {
    if (n.kind == ScheduleNode::Kind::grouped) names.insert(n.name);
  }
  return unpack_groups(schedule, names);
}

TemporaryGroups::TemporaryGroups(Schedule& schedule, std::vector<NewGroup> groups)
    : schedule_(schedule), grouping_(group_nodes(schedule, std::move(groups))) {}

TemporaryGroups::~TemporaryGroups() {
  unpack_groups(schedule_, std::set<std::string>(grouping_.names.begin(), grouping_.names.end()));
}

}  // namespace braid::passes
