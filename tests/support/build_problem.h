// Scheduling problems written down directly, without a graph.
#pragma once

#include <algorithm>
#include <vector>

#include "analysis/problem.h"

namespace braid::test {

// Nodes in input order; each names its predecessors. Waits, releases and starts depend on each other by
// themselves.
struct ProblemBuilder {
  using NodeId = analysis::NodeId;
  using Nodes = std::vector<NodeId>;
  analysis::Problem problem;
  analysis::IdVector<NodeId, Nodes> before;

  NodeId compute(std::int64_t ps, Nodes after = {}, analysis::Permille slowdown = 1000) {
    analysis::Step s;
    s.work = {ps};
    s.slowdown = slowdown;
    return node({s}, std::move(after));
  }
  struct Options {
    int channel = 0;
    int fabric = 0;
    analysis::Permille slowdown = 1000;
    bool blocking = false;
    std::int64_t latency = 0;
    std::int64_t floor = -1;  // negative: the whole time
  };
  // Returns the node; its collective is the last one of the problem.
  NodeId start(std::int64_t ps, Nodes after, const Options& o) {
    const analysis::CollectiveId c = problem.collectives.end_id();
    analysis::Collective collective;
    collective.op = ir::OpId{c.index};
    collective.start = NodeId{problem.size()};
    collective.channel = analysis::ChannelId{o.channel};
    collective.cost.time = {ps};
    collective.cost.latency = {o.latency};
    collective.cost.floor = {o.floor < 0 ? ps : o.floor};
    collective.smallest_floor = collective.cost.floor;
    collective.cost.slowdown = o.slowdown;
    collective.cost.fabric = o.fabric;
    problem.collectives.push_back(collective);
    problem.channels = std::max(problem.channels, o.channel + 1);
    problem.fabrics = std::max(problem.fabrics, o.fabric + 1);
    analysis::Step s{analysis::Step::Kind::start, o.blocking, c};
    return node({s}, std::move(after));
  }
  NodeId start(std::int64_t ps, Nodes after = {}) { return start(ps, std::move(after), Options{}); }
  NodeId wait(NodeId start_node, Nodes after = {}) {
    const analysis::CollectiveId c = problem.started_by(start_node);
    problem.collectives[c].wait = NodeId{problem.size()};
    after.push_back(start_node);
    analysis::Step s{analysis::Step::Kind::wait, false, c};
    return node({s}, std::move(after));
  }
  NodeId node(std::vector<analysis::Step> steps, Nodes after) {
    problem.steps.insert(problem.steps.end(), steps.begin(), steps.end());
    problem.first_step.push_back(problem.steps.end_id());
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    before.push_back(std::move(after));
    return before.end_id() - 1;
  }

  // Predecessors and successors are filled in here.
  analysis::Problem build() const {
    analysis::Problem p = problem;
    analysis::IdVector<NodeId, Nodes> after(before.ids());
    for (const NodeId n : before.ids()) {
      for (const NodeId b : before[n]) after[b].push_back(n);
    }
    for (const Nodes& nodes : before) p.preds.push_back(nodes);
    for (const Nodes& nodes : after) p.succs.push_back(nodes);
    return p;
  }
};

// The order of the nodes with these numbers.
inline analysis::Order order_of(std::initializer_list<int> numbers) {
  analysis::Order order;
  for (const int n : numbers) order.push_back(analysis::NodeId{n});
  return order;
}

}  // namespace braid::test
