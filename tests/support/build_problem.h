// Scheduling problems written down directly, without a graph.
#pragma once

#include <algorithm>
#include <vector>

#include "analysis/problem.h"

namespace braid::test {

// Nodes in input order; each names its predecessors. Waits, releases and starts depend on each other by
// themselves.
struct ProblemBuilder {
  analysis::Problem problem;
  std::vector<std::vector<int>> before;  // per node

  int compute(std::int64_t ps, std::vector<int> after = {}, analysis::Permille slowdown = 1000) {
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
  int start(std::int64_t ps, std::vector<int> after, const Options& o) {
    const int c = static_cast<int>(problem.collectives.size());
    analysis::Collective collective;
    collective.op = ir::OpId{c};
    collective.start = problem.size();
    collective.channel = o.channel;
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
  int start(std::int64_t ps, std::vector<int> after = {}) { return start(ps, std::move(after), Options{}); }
  int wait(int start_node, std::vector<int> after = {}) {
    const int c = problem.started_by(start_node);
    problem.collectives[static_cast<std::size_t>(c)].wait = problem.size();
    after.push_back(start_node);
    analysis::Step s{analysis::Step::Kind::wait, false, c};
    return node({s}, std::move(after));
  }
  int node(std::vector<analysis::Step> steps, std::vector<int> after) {
    problem.steps.insert(problem.steps.end(), steps.begin(), steps.end());
    problem.first_step.push_back(static_cast<int>(problem.steps.size()));
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    before.push_back(std::move(after));
    return problem.size() - 1;
  }

  // Predecessors and successors are filled in here.
  analysis::Problem build() const {
    analysis::Problem p = problem;
    std::vector<std::vector<int>> after(before.size());
    for (std::size_t n = 0; n < before.size(); ++n) {
      for (int b : before[n]) after[static_cast<std::size_t>(b)].push_back(static_cast<int>(n));
    }
    for (std::size_t n = 0; n < before.size(); ++n) {
      p.preds.insert(p.preds.end(), before[n].begin(), before[n].end());
      p.first_pred.push_back(static_cast<int>(p.preds.size()));
      p.succs.insert(p.succs.end(), after[n].begin(), after[n].end());
      p.first_succ.push_back(static_cast<int>(p.succs.size()));
    }
    return p;
  }
};

}  // namespace braid::test
