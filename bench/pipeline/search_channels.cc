#include "bench/pipeline/search_channels.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "pipeline/add_send_recv.h"
#include "pipeline/known_schedules.h"
#include "pipeline/search.h"
#include "pipeline/search_costs.h"
#include "pipeline/simulate.h"
#include "tests/pipeline/random_search_problem.h"

namespace braid::pipeline {
namespace {

struct Excess {
  double sum = 0, most = 0;
  int cases = 0;

  void add(analysis::Time t, analysis::Time than) {
    const double e = static_cast<double>(t.ps) / static_cast<double>(than.ps) - 1;
    sum += e;
    most = std::max(most, e);
    ++cases;
  }
  std::string text() const {
    return cases == 0 ? "-" : fmt::format("{:.2f} %, {:.2f} %", 100 * sum / cases, 100 * most);
  }
};

// The shortest known schedule that keeps the caps, with transfers as the plain lowering puts them.
analysis::Time best_known(const SearchProblem& p, const std::vector<NamedSchedule>& known,
                          const SearchResult& r, QueuePolicy policy) {
  analysis::Time best = analysis::Time::max();
  const PipelineCosts costs = simulation_costs(p);
  for (std::size_t j = 0; j < known.size(); ++j) {
    if (r.known[j].status != KnownOutcome::Status::fits) continue;
    const PipelineSchedule lowered = add_send_recv(to_schedule(p, from_rows(p, known[j].schedule)));
    best = std::min(best, simulate(lowered, costs, policy).makespan);
  }
  return best;
}

}  // namespace

bool print_channel_table(std::uint64_t seed, std::int64_t budget, int cases) {
  fmt::print(
      "| channels | cases | as short as the model | shortest in the model: mean, max above its makespan | "
      "chosen: "
      "mean, max above it | best known above the chosen: mean, max | proved optimal under the channels |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n");
  bool sound = true;
  for (const QueuePolicy policy : {QueuePolicy{QueuePolicy::Kind::edge, 0},
                                   {QueuePolicy::Kind::edge, 2},
                                   {QueuePolicy::Kind::pair, 0},
                                   {QueuePolicy::Kind::pair, 2},
                                   {QueuePolicy::Kind::rank, 0},
                                   {QueuePolicy::Kind::rank, 2}}) {
    Excess first, chosen, known_above;
    int equal = 0, proved = 0;
    for (int j = 0; j < cases; ++j) {
      RandomProblemOptions options;
      options.ranks_least = options.ranks_most = 4;
      options.microbatches_least = options.microbatches_most = 8;
      const SearchProblem p = random_search_problem(seed + static_cast<std::uint64_t>(j), options);
      const std::vector<NamedSchedule> known = known_schedules(p);
      SearchOptions search_options;
      search_options.node_budget = budget;
      search_options.channels = policy;
      const SearchResult r = search(p, known, search_options);
      first.add(r.executable.first_candidate, r.makespan);
      chosen.add(r.executable.simulated, r.makespan);
      equal += r.executable.simulated == r.makespan;
      proved += r.executable.simulated == r.lower_bound;
      sound &= r.executable.simulated >= r.lower_bound;
      const analysis::Time other = best_known(p, known, r, policy);
      if (other == analysis::Time::max()) continue;
      known_above.add(other, r.executable.simulated);
      sound &= other >= r.executable.simulated;
    }
    fmt::print("| {} | {} | {:.1f} % | {} | {} | {} | {:.1f} % |\n", to_string(policy), cases,
               100.0 * equal / cases, first.text(), chosen.text(), known_above.text(),
               100.0 * proved / cases);
    std::fflush(stdout);
  }
  return sound;
}

}  // namespace braid::pipeline
