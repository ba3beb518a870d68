#include "passes/inductor/group_fsdp_collectives.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "analysis/measure.h"
#include "ir/dependencies.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "passes/fusion_graph.h"
#include "passes/overlap/groups.h"

namespace braid::passes {
namespace {

using namespace ir;
using namespace analysis;

constexpr std::size_t kMostLoops = 16;  // between a parameter and its gather, a reduce-scatter and its output

class Finder {
 public:
  explicit Finder(const Schedule& schedule)
      : schedule_(schedule), deps_(find_dependencies(schedule)), taken_(nodes_of(schedule), 0) {}

  std::vector<NewGroup> run(std::int64_t depth) {
    for (const NodeId n : nodes_of(schedule_)) {
      const ScheduleNode& node = at(schedule_.nodes, n);
      if (node.kind != ScheduleNode::Kind::single) continue;
      if (const auto* k = schedule_.graph[node.op].as<WaitKernel>()) wait_of_[k->start] = n;
      if (const auto* k = schedule_.graph[node.op].as<ReleaseKernel>()) release_of_[k->start] = n;
    }
    // Prologues of collectives first: a copy between two of them belongs to the later one.
    std::vector<std::pair<NodeId, std::size_t>> gathers;  // the wait, its group
    std::vector<int> gather_waits, scatter_waits;         // groups
    for (const NodeId n : nodes_of(schedule_)) {
      const ScheduleNode& node = at(schedule_.nodes, n);
      if (node.kind != ScheduleNode::Kind::single) continue;
      const auto* k = schedule_.graph[node.op].as<CollectiveKernel>();
      if (k == nullptr) continue;
      const auto found = wait_of_.find(node.op);
      const NodeId wait = k->blocking || found == wait_of_.end() ? NodeId{} : found->second;
      const std::string& name = schedule_.graph[node.op].name;
      if (wait.valid() && k->kind == CollectiveKind::all_gather && is_parameter(n)) {
        add_start(name + "_gather", take(prologue(n, wait, false)), gather_waits, depth);
        gathers.emplace_back(wait, groups_.size());
        groups_.push_back({name + "_gather_wait", {}, {}});
      } else if (wait.valid() && k->kind == CollectiveKind::reduce_scatter && is_gradient(wait)) {
        add_start(name + "_scatter", take(prologue(n, wait, true)), scatter_waits, depth);
        groups_.push_back({name + "_scatter_wait", take({wait}), {}});
      } else {
        take(prologue(n, wait, true));
      }
    }
    for (const auto& [wait, group] : gathers) groups_[group].members = take(copies_behind(wait));
    return std::move(groups_);
  }

 private:
  const Schedule& schedule_;
  const Dependencies deps_;
  IdVector<NodeId, char> taken_;
  std::map<OpId, NodeId> wait_of_, release_of_;
  std::vector<NewGroup> groups_;

  // Adds the group of a start; that of its wait is the next one. At most `depth` are in flight.
  void add_start(std::string name, std::vector<NodeId> members, std::vector<int>& waits, std::int64_t depth) {
    NewGroup start{std::move(name), std::move(members), {}};
    if (std::ssize(waits) >= depth) start.after = {*(waits.end() - depth)};
    groups_.push_back(std::move(start));
    waits.push_back(count_of(groups_));
  }

  template <class F>
  static void for_each_data(std::span<const Dependency> all, F&& f) {
    for (const Dependency& d : all) {
      if (d.hazard == Hazard::read_after_write) f(NodeId{d.node});
    }
  }
  bool loops(NodeId node) const { return is_loops(schedule_, at(schedule_.nodes, node)); }

  // Loops that only move elements; with `scale`, they may also multiply by a constant.
  bool copies(NodeId node, bool scale) const {
    if (!loops(node)) return false;
    for (OpId op : ops_of(at(schedule_.nodes, node))) {
      const auto& body = schedule_.graph[op].as<Loops>()->body;
      if (schedule_.graph[op].as<Loops>()->is_reduction()) return false;
      int loads = 0;
      for (const Instr& instr : body.instrs) {
        loads += instr.code == OpCode::load;
        const bool moves = instr.code == OpCode::load || instr.code == OpCode::cast ||
                           instr.code == OpCode::index || instr.code == OpCode::constant;
        const bool scales = instr.code == OpCode::mul || instr.code == OpCode::div;
        if (!moves && !(scale && scales)) return false;
      }
      if (loads != 1) return false;
    }
    return true;
  }

  bool is_parameter(NodeId start) const {
    std::set<NodeId> seen;
    std::vector<NodeId> stack = {start};
    bool only_loops = true;
    while (!stack.empty() && only_loops && seen.size() <= kMostLoops) {
      const NodeId n = stack.back();
      stack.pop_back();
      for_each_data(deps_.predecessors(n.index), [&](NodeId p) {
        only_loops &= loops(p);
        if (seen.insert(p).second) stack.push_back(p);
      });
    }
    return only_loops && seen.size() <= kMostLoops;
  }

  bool is_gradient(NodeId wait) const {
    std::set<NodeId> seen = {wait};
    std::vector<NodeId> stack = {wait};
    bool unary = true;
    while (!stack.empty() && unary && seen.size() <= kMostLoops + 1) {
      const NodeId n = stack.back();
      stack.pop_back();
      for_each_data(deps_.successors(n.index), [&](NodeId s) {
        unary &= loops(s);
        for_each_data(deps_.predecessors(s.index), [&](NodeId p) { unary &= p == n; });
        if (seen.insert(s).second) stack.push_back(s);
      });
    }
    return unary && seen.size() <= kMostLoops + 1;
  }

  // The start and the loops before it whose results nothing else reads. `wait`: invalid if there is none.
  std::set<NodeId> prologue(NodeId start, NodeId wait, bool only_copies) const {
    std::set<NodeId> members = {start};
    std::set<NodeId> readers = {start, wait};  // the wait pins the inputs
    if (const auto r = release_of_.find(at(schedule_.nodes, start).op); r != release_of_.end())
      readers.insert(r->second);
    std::set<NodeId, std::greater<>> candidates;  // the latest first: its readers are then decided
    for_each_data(deps_.predecessors(start.index), [&](NodeId p) { candidates.insert(p); });
    while (!candidates.empty()) {
      const NodeId n = *candidates.begin();
      candidates.erase(candidates.begin());
      if (taken_[n] != 0 || !(only_copies ? copies(n, true) : loops(n))) continue;
      bool alone = true;
      for_each_data(deps_.successors(n.index), [&](NodeId s) { alone &= readers.contains(s); });
      if (!alone) continue;
      members.insert(n);
      readers.insert(n);
      for_each_data(deps_.predecessors(n.index), [&](NodeId p) { candidates.insert(p); });
    }
    return members;
  }

  std::set<NodeId> copies_behind(NodeId wait) const {
    std::set<NodeId> members = {wait};
    std::set<NodeId> candidates;  // the earliest first: what it reads is then decided
    for_each_data(deps_.successors(wait.index), [&](NodeId s) { candidates.insert(s); });
    while (!candidates.empty()) {
      const NodeId n = *candidates.begin();
      candidates.erase(candidates.begin());
      if (taken_[n] != 0 || !copies(n, false)) continue;
      bool alone = true;
      for_each_data(deps_.predecessors(n.index), [&](NodeId p) { alone &= members.contains(p); });
      if (!alone) continue;
      members.insert(n);
      for_each_data(deps_.successors(n.index), [&](NodeId s) { candidates.insert(s); });
    }
    return members;
  }

  std::vector<NodeId> take(const std::set<NodeId>& members) {
    for (const NodeId m : members) taken_[m] = 1;
    return {members.begin(), members.end()};
  }
};

Measurement measured(const Schedule& schedule, const PassContext& context) {
  const Problem problem = make_problem(schedule, *context.costs);
  return measure(schedule, problem, MemoryModel(schedule), identity_order(problem.nodes()),
                 {.bounds = false, .planned = false});
}

}  // namespace

bool GroupFsdpCollectives::run(Schedule& schedule, PassContext& context) {
  if (depth < 1) {
    user_error(errors::kBadPassOption, {.node = std::string(kName)},
               "depth must be at least 1, got " + std::to_string(depth),
               "use depth=1 for one gather in flight");
  }
  std::vector<NewGroup> groups = Finder(schedule).run(depth);
  if (groups.empty()) return false;
  const auto before = measured(schedule, context);
  if (!group_nodes(schedule, std::move(groups)).any()) return false;
  context.reports.push_back(make_report(std::string(kName), before, measured(schedule, context)));
  return true;
}

}  // namespace braid::passes
