// How often the schedule search proves its result, how long that takes and how far the rest may be from the
// optimum, on random problems in families. bench/pipeline/SEARCH.md keeps the output.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "bench/pipeline/search_channels.h"
#include "ir/error.h"
#include "pipeline/known_schedules.h"
#include "pipeline/list_schedules.h"
#include "pipeline/search.h"
#include "tests/pipeline/random_search_problem.h"

namespace braid::pipeline {
namespace {

struct Family {
  std::string name;
  RandomProblemOptions options;
  std::vector<std::int32_t> placement;
  int cases = 100;
};

RandomProblemOptions size(int ranks_least, int ranks_most, int microbatches_least, int microbatches_most) {
  RandomProblemOptions o;
  o.ranks_least = ranks_least;
  o.ranks_most = ranks_most;
  o.microbatches_least = microbatches_least;
  o.microbatches_most = microbatches_most;
  return o;
}

std::vector<Family> families() {
  std::vector<Family> out;
  out.push_back({"the figure: P 2-4, M 1-8", size(2, 4, 1, 8), {}, 1000});
  out.push_back({"P 4, M 8", size(4, 4, 8, 8), {}, 1000});
  Family f{"P 4, M 8, nearly equal costs", size(4, 4, 8, 8), {}, 200};
  f.options.spread = 1.1;
  out.push_back(f);
  f = {"P 4, M 8, equal costs", size(4, 4, 8, 8), {}, 200};
  f.options.spread = 1;
  out.push_back(f);
  f = {"P 4, M 8, costs over a factor 20", size(4, 4, 8, 8), {}, 200};
  f.options.spread = 20;
  out.push_back(f);
  f = {"P 4, M 8, latencies up to two mean costs", size(4, 4, 8, 8), {}, 200};
  f.options.latency = 2;
  out.push_back(f);
  f = {"P 4, M 8, full backwards", size(4, 4, 8, 8), {}, 200};
  f.options.split_backward = false;
  out.push_back(f);
  out.push_back({"P 4 V 2 placed as a V, M 8", size(4, 4, 8, 8), {0, 1, 2, 3, 3, 2, 1, 0}, 60});
  out.push_back({"P 4 V 2 placed as a loop, M 8", size(4, 4, 8, 8), {0, 1, 2, 3, 0, 1, 2, 3}, 60});
  out.push_back({"P 8, M 16", size(8, 8, 16, 16), {}, 100});
  out.push_back({"P 16, M 32", size(16, 16, 32, 32), {}, 20});
  return out;
}

template <class T>
T median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? T{} : values[values.size() / 2];
}

template <class T>
T most(const std::vector<T>& values) {
  return values.empty() ? T{} : *std::max_element(values.begin(), values.end());
}

std::string mean_and_most(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? "-"
                        : fmt::format("{:.2f} %, {:.2f} %", 100 * sum / static_cast<double>(values.size()),
                                      100 * most(values));
}

struct Totals {
  int cases = 0, infeasible = 0, proved = 0, known_fits = 0;
  std::vector<double> seconds, gaps, greedy_excess, known_excess;
  std::vector<std::int64_t> nodes;
  bool sound = true;
};

Totals measure(const Family& family, std::uint64_t first_seed, std::int64_t budget) {
  Totals t;
  for (int j = 0; j < family.cases; ++j) {
    const SearchProblem p =
        random_search_problem(first_seed + static_cast<std::uint64_t>(j), family.options, family.placement);
    const auto begin = std::chrono::steady_clock::now();
    SearchResult r;
    try {
      r = search(p, known_schedules(p), {.node_budget = budget});
    } catch (const ir::UserError& e) {
      if (e.code() != 882) throw;
      ++t.infeasible;  // proved, but it is no schedule: not counted as a case
      continue;
    }
    t.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    ++t.cases;
    t.nodes.push_back(r.nodes);
    t.proved += r.proven_optimal;
    if (!r.proven_optimal) t.gaps.push_back(r.gap());
    const Evaluation e = evaluate(p, r.orders);
    t.sound &= e.status == Evaluation::Status::ok && e.makespan == r.makespan &&
               r.lower_bound <= r.makespan && r.executable.simulated >= r.lower_bound;
    if (r.best_known >= 0) {
      ++t.known_fits;
      const analysis::Time best = r.known[static_cast<std::size_t>(r.best_known)].makespan;
      t.known_excess.push_back(static_cast<double>(best.ps) / static_cast<double>(r.makespan.ps) - 1);
      t.sound &= best >= r.makespan;
    }
    if (const auto greedy = best_list_schedule(SearchInstance(p))) {
      t.greedy_excess.push_back(static_cast<double>(greedy->makespan) / static_cast<double>(r.makespan.ps) -
                                1);
      t.sound &= greedy->makespan >= r.makespan.ps;
    }
  }
  return t;
}

int run(int argc, char** argv) {
  CLI::App app("Schedule search on random problems");
  std::uint64_t seed = 1;
  std::int64_t budget = 0;
  double share = 1;
  bool figure_only = false;
  app.add_option("--seed", seed, "of the first case of each family");
  app.add_option("--budget", budget, "states per case (0: the search's own)");
  app.add_option("--share", share, "of each family's cases");
  app.add_flag("--figure", figure_only, "only the first family; exit code 1 below 90 % proved");
  CLI11_PARSE(app, argc, argv);
  fmt::print(
      "| family | cases | proved | s median | s max | states median | states max | gap of the rest: median, "
      "max | "
      "a known schedule fits | best known above it: mean, max | greedy above it: mean, max |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  bool ok = true;
  for (Family family : families()) {
    family.cases = std::max(1, static_cast<int>(family.cases * share));
    const Totals t = measure(family, seed, budget);
    fmt::print(
        "| {} | {}{} | {:.1f} % | {:.4f} | {:.2f} | {} | {} | {} | {} | {} | {} |\n", family.name, t.cases,
        t.infeasible ? fmt::format(" (+{} without a schedule)", t.infeasible) : "",
        100.0 * t.proved / std::max(t.cases, 1), median(t.seconds), most(t.seconds), median(t.nodes),
        most(t.nodes),
        t.gaps.empty() ? "none" : fmt::format("{:.2f} %, {:.2f} %", 100 * median(t.gaps), 100 * most(t.gaps)),
        t.known_fits, mean_and_most(t.known_excess), mean_and_most(t.greedy_excess));
    std::fflush(stdout);
    ok &= t.sound;
    if (figure_only) return ok && t.proved * 10 >= t.cases * 9 ? 0 : 1;
  }
  fmt::print("\n");
  ok &= print_channel_table(seed, budget, std::max(1, static_cast<int>(200 * share)));
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace braid::pipeline

int main(int argc, char** argv) { return braid::pipeline::run(argc, argv); }
