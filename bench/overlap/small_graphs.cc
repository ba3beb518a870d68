#include "bench/overlap/small_graphs.h"

#include <fmt/format.h>

#include <random>

#include "analysis/problem.h"
#include "analysis/simulator.h"
#include "analysis/tails.h"
#include "ir/error.h"
#include "ir/parser.h"
#include "passes/overlap/list_scheduler.h"
#include "passes/pass_context.h"
#include "passes/runner.h"
#include "tests/support/random_problem.h"

namespace braid::bench {
namespace {

using namespace braid::passes;
using namespace braid::analysis;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  // 0 to n - 1; the distributions of the standard library differ between its makers.
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }

 private:
  std::mt19937_64 engine_;
};

Time makespan(const ir::Schedule& schedule, const CostModel& costs) {
  const Problem p = make_problem(schedule, costs);
  return simulate_makespan(p, identity_order(p.nodes()));
}

// Critical-path list scheduling: the ready node with the longest way to the end, never idle by choice.
Time plain_list_makespan(const Problem& p) {
  const NodeTails tails = path_tails(p);
  return simulate_makespan(p, list_schedule(p, {.priority = tails, .tails = tails, .may_idle = false}));
}

}  // namespace

ir::Schedule random_small_graph(std::uint64_t seed) {
  Random random(seed);
  std::string text = "graph small\nranks 2\nchannels communicator\ngroup @a = [0, 1]\ngroup @b = [0, 1]\n";
  std::vector<std::string> values, unread;
  const auto read = [&] {
    std::string list;
    for (const std::string& v : values) {
      if (random.below(10) >= 3) continue;
      list += (list.empty() ? "%" : ", %") + v;
      std::erase(unread, v);
    }
    return list;
  };
  const int nodes = 5 + random.below(5);
  for (int left = nodes, k = 0; left > 0; ++k) {
    const int ns = 1000 * (1 + random.below(100));
    const bool collective = left >= 3 && random.below(2) == 0;
    const char* group = random.below(2) == 0 ? "a" : "b";
    const std::string place = collective ? fmt::format(" comm(registered, @{})", group) : "";
    text += fmt::format("%n{}: f32[64]{} = extern \"work\" reads({}) cost(ns {})\n", k, place, read(), ns);
    std::string value = fmt::format("n{}", k);
    --left;
    if (collective) {
      text += fmt::format("%g{0}: f32[128] comm(registered, @{1}) = all_gather @{1} (%n{0}) cost(ns {2})\n",
                          k, group, 1000 * (1 + random.below(100)));
      text += fmt::format("%g{0}.w mutates %g{0} = wait g{0}\n", k);
      value = fmt::format("g{}.w", k);
      left -= 2;
    }
    values.push_back(value);
    unread.push_back(value);
  }
  for (const std::string& v : unread) text += fmt::format("output %{}\n", v);
  return ir::parse_schedule(text, fmt::format("small graph {}", seed));
}

Time shortest_makespan(const ir::Schedule& schedule, const CostModel& costs) {
  return test::exhaustive_optimum(make_problem(schedule, costs, {.channel_order = false})).makespan;
}

std::string small_graphs_table(std::span<const Scheduler> schedulers, int cases) {
  struct Tally {
    int optimal = 0;
    double sum = 0, worst = 1;
  };
  std::vector<Tally> tallies(schedulers.size());
  const auto costs = cost_model_for("h100");
  std::uint64_t seed = 0;
  for (int found = 0; found < cases; ++seed) {
    const ir::Schedule input = random_small_graph(seed);
    const Problem p = make_problem(input, *costs, {.channel_order = false});
    const Time optimum = shortest_makespan(input, *costs);
    if (plain_list_makespan(p) == optimum) continue;
    ++found;
    for (std::size_t s = 0; s < schedulers.size(); ++s) {
      ir::Schedule schedule = input;
      PassContext context;
      context.costs = costs;
      RunOptions options;
      options.verify = false;
      options.context = &context;
      run_passes(schedule, parse_pass_list(schedulers[s].passes), options);
      const double ratio =
          static_cast<double>(makespan(schedule, *costs).ps) / static_cast<double>(optimum.ps);
      if (ratio < 1)
        throw std::runtime_error(
            fmt::format("{}: faster than the optimum of seed {}", schedulers[s].name, seed));
      tallies[s].optimal += ratio == 1 ? 1 : 0;
      tallies[s].sum += ratio - 1;
      tallies[s].worst = std::max(tallies[s].worst, ratio);
    }
  }
  std::string out = fmt::format(
      "{} random graphs of at most nine nodes on which list scheduling by the critical path misses the "
      "optimum (of {} "
      "graphs, h100 with contention):\n\n| scheduler | optimal % | mean % above the optimum | worst % above "
      "it "
      "|\n|---|---:|---:|---:|\n",
      cases, seed);
  for (std::size_t s = 0; s < schedulers.size(); ++s) {
    out += fmt::format("| {} | {:.2f} | {:.3f} | {:.2f} |\n", schedulers[s].name,
                       100.0 * tallies[s].optimal / cases, 100 * tallies[s].sum / cases,
                       100 * (tallies[s].worst - 1));
  }
  return out;
}

}  // namespace braid::bench
