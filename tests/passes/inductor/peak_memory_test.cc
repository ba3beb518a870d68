// reorder_for_peak_memory beside the orders of its source (torch/_inductor/memory.py), written down here as
// they are published: slow and plain.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "analysis/memory_model.h"
#include "analysis/problem.h"
#include "tests/support/orders.h"
#include "tests/support/random.h"
#include "tests/support/random_graph.h"

namespace braid::test {
namespace {

using analysis::MemoryModel;
using analysis::NodeId;
using analysis::Order;
using analysis::Position;
using analysis::Problem;
using analysis::Tenant;
using passes::PassContext;

// A schedule with what the published orders look at: dependencies, and the bytes that each node allocates (by
// the input order) and reads.
struct Graph {
  Problem problem;
  MemoryModel memory;

  explicit Graph(const ir::Schedule& schedule)
      : problem(analysis::make_problem(schedule, *PassContext().costs)), memory(schedule) {}

  int size() const { return problem.size(); }
  std::int64_t allocated_by(NodeId node) const {
    std::int64_t bytes = 0;
    for (const Tenant& t : memory.tenants()) bytes += t.nodes.front() == node ? t.bytes : 0;
    return bytes;
  }
  std::int64_t touched_by(NodeId node) const {
    std::int64_t bytes = 0;
    for (const analysis::TenantId t : memory.touched_by(node)) bytes += memory.tenants()[t].bytes;
    return bytes;
  }
  bool is_ready(NodeId node, const std::set<NodeId>& done) const {
    return !done.contains(node) && std::ranges::all_of(problem.predecessors(node),
                                                       [&](NodeId before) { return done.contains(before); });
  }
  std::int64_t live_between(const Tenant& t, const std::set<NodeId>& done) const {
    const auto gone = [&](NodeId node) { return done.contains(node); };
    if (std::ranges::none_of(t.nodes, gone)) return 0;
    return t.to_end || !std::ranges::all_of(t.nodes, gone) ? t.bytes : 0;
  }
  std::int64_t live_between(const std::set<NodeId>& done) const {
    std::int64_t bytes = 0;
    for (const Tenant& t : memory.tenants()) bytes += live_between(t, done);
    return bytes;
  }
  // Bytes that die if the node comes next.
  std::int64_t freed_by(NodeId node, const std::set<NodeId>& done) const {
    std::int64_t bytes = 0;
    for (const Tenant& t : memory.tenants()) {
      const bool last = std::ranges::all_of(t.nodes, [&](NodeId n) { return n == node || done.contains(n); });
      if (last && !t.to_end && std::ranges::count(t.nodes, node) > 0) bytes += t.bytes;
    }
    return bytes;
  }
};

Order published_lpmf(const Graph& g) {
  std::int64_t most = 0;
  for (const Tenant& t : g.memory.tenants()) most += t.to_end ? t.bytes : 0;
  std::set<NodeId> done;
  Order order;
  while (static_cast<int>(order.size()) < g.size()) {
    const std::int64_t headroom = most - g.live_between(done);
    using Key = std::tuple<std::int64_t, std::int64_t, NodeId>;
    std::optional<Key> best;
    for (const NodeId n : g.problem.nodes()) {
      if (!g.is_ready(n, done)) continue;
      const std::int64_t size = g.allocated_by(n);
      const Key key{size > headroom ? size : 0, size - g.freed_by(n, done), n};
      if (!best || key < *best) best = key;
    }
    const NodeId node = std::get<2>(*best);
    std::int64_t during = g.live_between(done);
    for (const analysis::TenantId t : g.memory.touched_by(node)) {
      const Tenant& tenant = g.memory.tenants()[t];
      if (g.live_between(tenant, done) == 0) during += tenant.bytes;
    }
    most = std::max(most, during);
    done.insert(node);
    order.push_back(node);
  }
  return order;
}

Order published_bfs(const Graph& g) {
  std::set<NodeId> done;
  std::map<NodeId, Position> position;
  Order order;
  while (static_cast<int>(order.size()) < g.size()) {
    std::optional<std::pair<std::vector<Position>, NodeId>> best;
    for (const NodeId n : g.problem.nodes()) {
      if (!g.is_ready(n, done)) continue;
      std::vector<Position> key;
      for (const NodeId before : g.problem.predecessors(n)) key.push_back(position.at(before));
      std::ranges::sort(key);
      if (std::pair candidate(key, n); !best || candidate < *best) best = candidate;
    }
    position[best->second] = order.end_id();
    done.insert(best->second);
    order.push_back(best->second);
  }
  return order;
}

void visit(const Graph& g, std::vector<NodeId> nodes, std::set<NodeId>& seen, Order& order) {
  std::ranges::stable_sort(nodes, {}, [&](NodeId n) { return g.touched_by(n); });
  for (const NodeId n : nodes) {
    if (!seen.insert(n).second) continue;
    const auto needs = g.problem.predecessors(n);
    visit(g, {needs.begin(), needs.end()}, seen, order);
    order.push_back(n);
  }
}
Order published_dfs(const Graph& g) {
  std::set<NodeId> seen;
  Order order;
  visit(g, analysis::identity_order(g.problem.nodes()), seen, order);
  return order;
}

// Kernels with results of random sizes; each reads some of those before it, and some results are outputs.
std::string random_text(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  const std::uint64_t nodes = 4 + below(16), readers = 1 + below(4);
  // Few sizes, so that ties are frequent.
  const std::uint64_t sizes = 1 + below(6);
  std::vector<std::string> unread;
  std::string body;
  for (std::uint64_t n = 0; n < nodes; ++n) {
    std::set<std::uint64_t> reads;
    for (std::uint64_t k = below(readers + 1); n > 0 && k > 0; --k) reads.insert(below(n));
    std::string list = "%x";
    for (std::uint64_t r : reads) {
      list += fmt::format(", %n{}", r);
      std::erase(unread, fmt::format("n{}", r));
    }
    body += fmt::format("%n{}: f32[{}] = extern \"work\" reads({})\n", n, 16 << below(sizes), list);
    unread.push_back(fmt::format("n{}", n));
  }
  std::string outputs;
  for (const std::string& name : unread) outputs += "output %" + name + "\n";
  return graph(body, outputs);
}

std::int64_t live_peak(const ir::Schedule& schedule) {
  return MemoryModel(schedule).live(analysis::identity_order(analysis::nodes_of(schedule))).peak;
}

void expect_no_published_order_to_be_better(const ir::Schedule& input) {
  const Graph g(input);
  ir::Schedule schedule = input;
  passes::run_passes(schedule, passes::parse_pass_list("reorder_for_peak_memory"), {});
  const std::int64_t ours = live_peak(schedule);
  EXPECT_LE(ours, live_peak(input));
  EXPECT_LE(ours, g.memory.live(published_lpmf(g)).peak) << "LPMF";
  EXPECT_LE(ours, g.memory.live(published_bfs(g)).peak) << "BFS";
  EXPECT_LE(ours, g.memory.live(published_dfs(g)).peak) << "DFS";
}

TEST(ReorderForPeakMemory, NoPublishedOrderOfARandomGraphIsBetter) {
  for (int k = 0; k < random_cases(4000); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    expect_no_published_order_to_be_better(ir::parse_schedule(random_text(seed), "test"));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ReorderForPeakMemory, NoPublishedOrderOfARandomProgramIsBetter) {
  for (int k = 0; k < random_cases(500); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    expect_no_published_order_to_be_better(random_program(seed, 20).schedule);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace braid::test
