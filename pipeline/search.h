// Searches the order of compute actions that ends first; the model is search_problem.h's.
//
//   check -> bounds -> known and greedy schedules under the caps, the best is the incumbent -> widening_beam
//   (exact when it ends within the budget) -> SEND and RECV by the model's times (timed_transfers.h)
//
// The result is never longer than the best known schedule that fits the caps, says how far from the optimum
// it can be at most, and depends on nothing but its input: budgets count states, never seconds.
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
  Schedule schedule;  // compute actions (others are passed over), for the problem's stages and micro-batches
};

struct SearchOptions {
  // States for which a bound is computed; 0: default_node_budget.
  std::int64_t node_budget = 0;
  std::int64_t max_bytes = std::int64_t{512} << 20;  // of the states that are held at one time
  ChannelPolicy channels;
  // What the simulation under the channels charges; none: the problem's times, nothing else.
  const PipelineCosts* costs = nullptr;
  // Simulations that may be spent on improving the schedule under the channels; -1: default_simulations.
  std::int64_t simulations = -1;
};

// A constant amount of work, some seconds on one core: fewer states where a bound looks at more actions.
std::int64_t default_node_budget(const SearchProblem& problem);
std::int64_t default_simulations(const SearchProblem& problem);

// What became of a known schedule. `unsuited`: other stages, ranks or micro-batches than the problem.
struct KnownOutcome {
  enum class Status : std::uint8_t { fits, over_cap, stuck, unsuited };
  std::string name;
  Status status = Status::fits;
  analysis::Time makespan;  // where it fits
};

struct SearchResult {
  // The shortest in the model.
  Orders orders;
  Schedule compute;  // the orders as rows
  analysis::Time makespan;
  // The shortest under the channels among it, the greedy and the known ones, improved there: what to run. Its
  // simulated time is not below lower_bound either: queues and contention only lengthen.
  ChannelChoice executable;
  std::string executable_source;  // "search", "greedy" or the name of a known schedule
  ChannelPolicy channels;
  RootBounds root_bounds;
  analysis::Time lower_bound;  // of every schedule, proved
  bool proven_optimal = false;
  std::vector<KnownOutcome> known;
  int best_known = -1;  // which of them is shortest; -1: none fits
  std::int64_t nodes = 0, node_budget = 0;
  std::int64_t width = 0;  // of the last beam

  // How much longer than the optimum it is at most, as a part of the makespan.
  double gap() const {
    return makespan.ps == 0
               ? 0
               : static_cast<double>((makespan - lower_bound).ps) / static_cast<double>(makespan.ps);
  }
};

// Throws what check(problem) throws, BR0882 when it is proved that the caps admit no schedule, BR0883 when
// the budget ended before the first one was found (and the greedy ones ran into dead ends).
SearchResult search(const SearchProblem& problem, std::span<const NamedSchedule> known,
                    const SearchOptions& options = {});

// One paragraph: makespan, bounds, gap, what the known schedules reach.
std::string to_text(const SearchResult& result);

}  // namespace braid::pipeline
