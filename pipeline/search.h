// Searches for the order of compute actions with the least makespan, in the model of search_problem.h.
//
//   check -> bounds -> known and greedy schedules under the caps, the best is the incumbent -> widening_beam
//   (exact if it finishes within the budget) -> SEND and RECV by the model's times (timed_transfers.h)
//
// The result is never longer than the best known schedule that fits the caps, bounds its distance from the
// optimum, and depends only on its input: budgets count states, not seconds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pipeline/channel_choice.h"
#include "pipeline/lower_bounds.h"
#include "pipeline/search_problem.h"

namespace braid::pipeline {

struct NamedSchedule {
  std::string name;
  PipelineSchedule schedule;  // for the problem's stages and micro-batches; only its compute actions are used
};

struct SearchOptions {
  // States for which a bound is computed; 0: default_node_budget.
  std::int64_t node_budget = 0;
  std::int64_t max_bytes = std::int64_t{512} << 20;  // of the states held at one time
  QueuePolicy channels;
  // The costs of the simulation under the channels; null: only the problem's times.
  const PipelineCosts* costs = nullptr;
  // Simulations that may be spent on improving the schedule under the channels; -1: default_simulations.
  std::int64_t simulations = -1;
};

// A constant amount of work, some seconds on one core: fewer states where a bound looks at more actions.
std::int64_t default_node_budget(const SearchProblem& problem);
std::int64_t default_simulations(const SearchProblem& problem);

// The outcome for a known schedule. `unsuited`: its stages, ranks or micro-batches differ from the problem's.
struct KnownOutcome {
  enum class Status : std::uint8_t { fits, over_cap, stuck, unsuited };
  std::string name;
  Status status = Status::fits;
  analysis::Time makespan;  // if it fits
};

struct SearchResult {
  // The shortest in the model.
  Orders orders;
  PipelineSchedule compute;  // the orders as rows
  analysis::Time makespan;
  // The one to run: of this one, the greedy and the known ones the shortest under the channels, then
  // improved. Its simulated time is not below lower_bound, since queues and contention can only lengthen a
  // schedule.
  ChannelChoice executable;
  std::string executable_source;  // "search", "greedy" or the name of a known schedule
  QueuePolicy channels;
  RootBounds root_bounds;
  analysis::Time lower_bound;  // proved for every schedule
  bool proven_optimal = false;
  std::vector<KnownOutcome> known;
  int best_known = -1;  // the shortest of them; -1: none fits
  std::int64_t nodes = 0, node_budget = 0;
  std::int64_t width = 0;  // of the last beam

  // An upper bound on its excess over the optimum, as a fraction of the makespan.
  double gap() const {
    return makespan.ps == 0
               ? 0
               : static_cast<double>((makespan - lower_bound).ps) / static_cast<double>(makespan.ps);
  }
};

// Throws what check(problem) throws, BR0882 if the caps provably admit no schedule, and BR0883 if the budget
// was spent before one was found (and the greedy ones ran into dead ends).
SearchResult search(const SearchProblem& problem, std::span<const NamedSchedule> known,
                    const SearchOptions& options = {});

// One paragraph: makespan, bounds, gap and the known schedules' makespans.
std::string to_text(const SearchResult& result);

}  // namespace braid::pipeline
