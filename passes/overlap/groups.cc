#include "passes/overlap/groups.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include "ir/dependencies.h"
#include "ir/error.h"

namespace braid::passes {
namespace {

using namespace ir;

std::size_t u(int k) { return static_cast<std::size_t>(k); }

// Topological order of units: nodes outside of groups, and groups. Unit k < nodes is a node, unit nodes + g
// is group g.
class Contraction {
 public:
  Contraction(const Schedule& schedule, const std::vector<NewGroup>& groups)
      : deps_(find_dependencies(schedule)), groups_(groups), nodes_(deps_.size()) {
    const std::size_t units = u(nodes_) + groups.size();
    unit_.resize(u(nodes_));
    std::iota(unit_.begin(), unit_.end(), 0);
    key_.resize(units);
    std::iota(key_.begin(), key_.end(), 0);
    for (int g = 0; g < group_count(); ++g) {
      key_[u(nodes_ + g)] = -1;
      for (int m : groups[u(g)].members) {
        internal_check(unit_[u(m)] == m, "a node in two groups");
        unit_[u(m)] = nodes_ + g;
        key_[u(nodes_ + g)] = std::max(key_[u(nodes_ + g)], m);
      }
    }
    after_.resize(groups.size());
    before_.resize(groups.size());
    for (int g = 0; g < group_count(); ++g) {
      for (int a : groups[u(g)].after) {
        after_[u(g)].push_back(a);
        before_[u(a)].push_back(g);
      }
    }
    missing_.assign(units, 0);
    done_.assign(units, false);
    alive_.assign(units, true);
    for (int n = 0; n < nodes_; ++n) {
      if (unit_[u(n)] != n) alive_[u(n)] = false;
    }
    for (int g = 0; g < group_count(); ++g) {
      if (groups[u(g)].members.empty()) alive_[u(nodes_ + g)] = false;
    }
  }

  // Units in order; afterwards `made` and `dropped` say which groups and order-only dependencies are left.
  std::vector<int> run() {
    std::vector<int> order = pass();
    if (!broken_) return order;
    // What had to give way is known; once more, so that nothing has run ahead of what a cycle held back.
    done_.assign(done_.size(), false);
    return pass();
  }

  bool made(int group) const { return alive_[u(nodes_ + group)]; }
  const std::vector<int>& after(int group) const { return after_[u(group)]; }
  const std::vector<std::pair<int, int>>& dropped() const { return dropped_; }

 private:
  std::vector<int> pass() {
    for (std::size_t k = 0; k < alive_.size(); ++k) {
      const int unit = static_cast<int>(k);
      if (!alive_[k]) continue;
      missing_[k] = count_missing(unit);
      if (missing_[k] == 0) push(unit);
    }
    std::vector<int> order;
    std::size_t first = 0;  // no living unit before is left
    for (;;) {
      while (!ready_.empty()) {
        const int unit = ready_.top().second;
        ready_.pop();
        done_[u(unit)] = true;
        order.push_back(unit);
        for_each_successor(unit, [&](int s) {
          if (--missing_[u(s)] == 0) push(s);
        });
      }
      while (first < alive_.size() && (!alive_[first] || done_[first])) ++first;
      if (first == alive_.size()) break;
      break_cycle(static_cast<int>(first));
      first = 0;  // members of a group that was given up live again
    }
    return order;
  }

  const Dependencies deps_;
  const std::vector<NewGroup>& groups_;
  const int nodes_;
  std::vector<int> unit_, key_, missing_;
  std::vector<bool> done_, alive_;
  bool broken_ = false;                           // a cycle was found
  std::vector<std::vector<int>> after_, before_;  // order-only, of groups
  std::vector<std::pair<int, int>> dropped_;
  using Entry = std::pair<int, int>;  // key, unit
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready_;

  int group_count() const { return static_cast<int>(groups_.size()); }
  void push(int unit) { ready_.emplace(key_[u(unit)], unit); }

  template <class F>
  void for_each_node(int unit, F&& f) const {
    if (unit < nodes_) {
      f(unit);
    } else {
      for (int m : groups_[u(unit - nodes_)].members) f(m);
    }
  }
  // Once per dependency, order-only ones of groups last.
  template <class F>
  void for_each_predecessor(int unit, F&& f) const {
    for_each_node(unit, [&](int n) {
      for (const Dependency& d : deps_.predecessors(n)) {
        if (unit_[u(d.node)] != unit) f(unit_[u(d.node)]);
      }
    });
    if (unit < nodes_) return;
    for (int a : after_[u(unit - nodes_)]) f(nodes_ + a);
  }
  template <class F>
  void for_each_successor(int unit, F&& f) const {
    for_each_node(unit, [&](int n) {
      for (const Dependency& d : deps_.successors(n)) {
        if (unit_[u(d.node)] != unit) f(unit_[u(d.node)]);
      }
    });
    if (unit < nodes_) return;
    for (int b : before_[u(unit - nodes_)]) f(nodes_ + b);
  }

  int count_missing(int unit) const {
    int n = 0;
    for_each_predecessor(unit, [&](int p) { n += done_[u(p)] ? 0 : 1; });
    return n;
  }

  // Nothing is ready: from any unit that is left, predecessors that are left lead into a cycle.
  void break_cycle(int from) {
    broken_ = true;
    std::vector<int> path;
    std::vector<bool> seen(alive_.size(), false);
    int at = from;
    while (!seen[u(at)]) {
      seen[u(at)] = true;
      path.push_back(at);
      int next = -1;
      for_each_predecessor(at, [&](int p) {
        if (next < 0 && !done_[u(p)]) next = p;
      });
      internal_check(next >= 0, "a unit that waits for nothing is not ready");
      at = next;
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    // An order-only dependency is the first to go; otherwise the last group of the cycle.
    for (std::size_t k = 0; k < path.size(); ++k) {
      const int later = path[k] - nodes_, earlier = path[(k + 1) % path.size()] - nodes_;
      if (later < 0 || earlier < 0 || !std::ranges::count(after_[u(later)], earlier)) continue;
      return drop(later, earlier);
    }
    int last = -1;
    for (int unit : path) {
      if (unit >= nodes_ && (last < 0 || key_[u(unit)] > key_[u(last)])) last = unit;
    }
    internal_check(last >= 0, "dependencies with a cycle");
    give_up(last);
  }

  void drop(int later, int earlier) {
    std::erase(after_[u(later)], earlier);
    std::erase(before_[u(earlier)], later);
    dropped_.emplace_back(later, earlier);
    if (--missing_[u(nodes_ + later)] == 0) push(nodes_ + later);
  }

  void give_up(int unit) {
    const int g = unit - nodes_;
    for (int a : std::vector<int>(after_[u(g)])) {
      std::erase(after_[u(g)], a);
      std::erase(before_[u(a)], g);
    }
    for (int b : std::vector<int>(before_[u(g)])) {
      std::erase(after_[u(b)], g);
      if (--missing_[u(nodes_ + b)] == 0) push(nodes_ + b);
    }
    before_[u(g)].clear();
    alive_[u(unit)] = false;
    for (int m : groups_[u(g)].members) {
      unit_[u(m)] = m;
      alive_[u(m)] = true;
    }
    for (int m : groups_[u(g)].members) {
      missing_[u(m)] = count_missing(m);
      if (missing_[u(m)] == 0) push(m);
    }
  }
};

}  // namespace

bool Grouping::any() const {
  return std::ranges::any_of(names, [](const std::string& n) { return !n.empty(); });
}

Grouping group_nodes(Schedule& schedule, std::vector<NewGroup> groups) {
  for (NewGroup& g : groups) {
    std::sort(g.members.begin(), g.members.end());
    for (int m : g.members) {
      internal_check(schedule.nodes[u(m)].kind != ScheduleNode::Kind::grouped, "a group inside of a group");
    }
    std::sort(g.after.begin(), g.after.end());
    g.after.erase(std::unique(g.after.begin(), g.after.end()), g.after.end());
  }
  Contraction contraction(schedule, groups);
  const std::vector<int> order = contraction.run();

  Grouping out;
  out.names.resize(groups.size());
  out.dropped = contraction.dropped();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (contraction.made(static_cast<int>(g)))
      out.names[g] = schedule.graph.op_names.unique(groups[g].name, "group");
  }
  if (!out.any()) return out;
  const int nodes = static_cast<int>(schedule.nodes.size());
  std::vector<ScheduleNode> result;
  for (int unit : order) {
    if (unit < nodes) {
      result.push_back(std::move(schedule.nodes[u(unit)]));
      continue;
    }
    const int g = unit - nodes;
    ScheduleNode node{ScheduleNode::Kind::grouped, out.names[u(g)], {}, {}};
    for (int m : groups[u(g)].members) node.members.push_back(std::move(schedule.nodes[u(m)]));
    for (int a : contraction.after(g)) node.after.push_back(out.names[u(a)]);
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
