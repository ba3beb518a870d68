// sink_waits, raise_comms, reorder_compute_for_overlap, decide_global_ordering_of_comms, schedule_for_comm.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "analysis/problem.h"
#include "tests/support/orders.h"
#include "tests/support/random.h"

namespace braid::test {
namespace {

using analysis::NodeId;
using analysis::Order;

// The published procedure, with sets of nodes and no thought of speed.
Order published_compute_for_overlap(const analysis::Problem& p) {
  analysis::IdVector<NodeId, std::set<NodeId>> ancestors(p.nodes());
  std::vector<NodeId> comms;
  for (NodeId n : p.nodes()) {
    auto& mine = ancestors[n];
    for (NodeId before : p.predecessors(n)) {
      mine.insert(before);
      mine.merge(std::set<NodeId>(ancestors[before]));
    }
    if (p.started_by(n).valid()) comms.push_back(n);
  }
  const auto needs = [&](NodeId node, NodeId before) { return ancestors[node].contains(before); };
  Order order;
  std::set<NodeId> left;
  for (NodeId n : p.nodes()) left.insert(n);
  const auto emit = [&](NodeId n) {
    left.erase(n);
    order.push_back(n);
  };
  const auto emit_needed = [&](NodeId comm) {
    bool any = false;
    for (NodeId n : std::set<NodeId>(left)) {
      if (!needs(comm, n)) continue;
      emit(n);
      any = true;
    }
    return any;
  };
  analysis::Time rolled_over;
  for (std::size_t c = 0; c < comms.size(); ++c) {
    if (c > 0) {
      const NodeId previous = comms[c - 1];
      const analysis::Time cost = p.collectives[p.started_by(previous)].cost.time;
      analysis::Time hidden = rolled_over;
      for (NodeId n : std::set<NodeId>(left)) {
        if (!needs(comms[c], n) || needs(n, previous)) continue;
        emit(n);
        hidden += p.compute_time(n);
      }
      const analysis::Time step1 = hidden;
      std::vector<std::pair<std::size_t, NodeId>> candidates;  // first collective that it feeds, node
      for (NodeId n : left) {
        if (needs(n, previous) || p.started_by(n).valid()) continue;
        if (std::ranges::any_of(p.predecessors(n), [&](NodeId before) { return left.contains(before); }))
          continue;
        std::size_t first = 0;
        while (first < comms.size() && !needs(comms[first], n)) ++first;
        candidates.emplace_back(first, n);
      }
      std::ranges::sort(candidates);
      for (const auto& [first, n] : candidates) {
        if (hidden >= cost) break;
        if (2 * (cost - hidden).ps <= p.compute_time(n).ps) continue;
        emit(n);
        hidden += p.compute_time(n);
      }
      const bool between = emit_needed(comms[c]);
      rolled_over = between ? analysis::Time{} : hidden - step1;
    } else {
      emit_needed(comms[c]);
    }
    emit(comms[c]);
  }
  for (NodeId n : std::set<NodeId>(left)) emit(n);
  return order;
}

TEST(ReorderComputeForOverlap, IsThePublishedProcedureOnRandomGraphs) {
  for (int k = 0; k < random_cases(500); ++k) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(k);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    std::string body, outputs;
    std::vector<std::string> values = {"x"}, open;
    for (std::uint64_t left = 5 + below(40), n = 0; left > 0; --left, ++n) {
      const std::string name = fmt::format("n{}", n);
      const std::string read = values[below(values.size())];
      const int ns = static_cast<int>(100 * below(20));
      if (below(4) == 0) {
        body += fmt::format("%{}: f32[128] = all_gather @g (%{}) cost(ns {})\n", name, read, ns);
        open.push_back(name);
      } else if (!open.empty() && below(3) == 0) {
        const std::size_t which = below(open.size());
        body += wait(open[which]);
        outputs += "output %" + open[which] + ".1\n";
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
      } else {
        body += compute(name, "%" + read + ", %" + values[below(values.size())], ns);
        values.push_back(name);
        outputs += "output %" + name + "\n";
      }
    }
    for (const std::string& name : open) body += wait(name);
    const std::string text = graph(body, outputs);
    const ir::Schedule schedule = ir::parse_schedule(text, "test");
    std::string expected;
    for (NodeId n :
         published_compute_for_overlap(analysis::make_problem(schedule, *passes::PassContext().costs)))
      expected += (expected.empty() ? "" : " ") + ir::name_of(schedule, n.index);
    ASSERT_EQ(order_after("reorder_compute_for_overlap", text), expected);
  }
}

}  // namespace
}  // namespace braid::test
