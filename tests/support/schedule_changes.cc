#include "tests/support/schedule_changes.h"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "ir/dependencies.h"
#include "ir/error.h"
#include "ir/fused_loops.h"

namespace braid::test {

using namespace ir;

bool shuffle_nodes(Schedule& schedule, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const Dependencies deps = find_dependencies(schedule);
  std::vector<int> missing(static_cast<std::size_t>(deps.size())), ready, order;
  for (int k = 0; k < deps.size(); ++k) {
    std::set<int> before;
    for (const Dependency& d : deps.predecessors(k)) before.insert(d.node);
    missing[static_cast<std::size_t>(k)] = static_cast<int>(before.size());
    if (before.empty()) ready.push_back(k);
  }
  while (!ready.empty()) {
    const std::size_t at = random() % ready.size();
    const int k = ready[at];
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(at));
    order.push_back(k);
    std::set<int> after;
    for (const Dependency& d : deps.successors(k)) after.insert(d.node);
    for (int s : after) {
      if (--missing[static_cast<std::size_t>(s)] == 0) ready.push_back(s);
    }
  }
  internal_check(static_cast<int>(order.size()) == deps.size(), "dependencies with a cycle");
  internal_check(!deps.violation(order), "the shuffled order breaks a dependency");
  std::vector<ScheduleNode> nodes;
  for (int k : order) nodes.push_back(schedule.nodes[static_cast<std::size_t>(k)]);
  const bool changed = !std::is_sorted(order.begin(), order.end());
  schedule.nodes = std::move(nodes);
  if (changed) schedule.plan.reset();
  return changed;
}

void unroll_fused(Schedule& schedule, const std::map<std::string, std::int64_t>& dims, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Graph& graph = schedule.graph;
  const auto size = [&](Expr e) { return evaluate(e, [&](Expr d) { return dims.at(d.dim_name()); }); };
  for (ScheduleNode& node : schedule.nodes) {
    if (node.kind != ScheduleNode::Kind::fused) continue;
    const std::vector<OpId> ops = ops_of(node);
    const std::optional<FusedLoops> fused = analyse_fused(graph, ops);
    internal_check(fused.has_value(), "an illegal fused node");
    std::vector<std::vector<Expr>> points = {{}};
    for (const Expr& extent : fused->outer) {
      std::vector<std::vector<Expr>> longer;
      for (const std::vector<Expr>& p : points) {
        for (std::int64_t k = 0; k < size(extent); ++k) {
          longer.push_back(p);
          longer.back().push_back(Expr(k));
        }
      }
      points = std::move(longer);
    }
    std::shuffle(points.begin(), points.end(), random);
    node.kind = ScheduleNode::Kind::grouped;  // members one after the other
    node.members.clear();
    for (const std::vector<Expr>& point : points) {
      for (const FusedLoops::Member& m : fused->members) {
        Operation op = graph[m.op];
        Loops& loops = *op.as<Loops>();
        std::vector<Expr> by = point;
        for (int k = 0; k < m.inner_dims; ++k) by.push_back(graph.pool->index(k));
        for (Instr& instr : loops.body.instrs) instr.index = substitute_indices(instr.index, by);
        loops.store_index = substitute_indices(loops.store_index, by);
        loops.sizes.erase(loops.sizes.begin(),
                          loops.sizes.begin() + static_cast<std::ptrdiff_t>(point.size()));
        node.members.push_back(ScheduleNode::single(graph.add_op(std::move(op))));
      }
    }
  }
}

}  // namespace braid::test
