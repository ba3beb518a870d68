// The search's internal representation: flat arrays for everything that does not depend on decisions, and
// partial schedules as counts and times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/search_problem.h"

namespace braid::pipeline {

inline constexpr int kForward = 0, kInput = 1, kWeight = 2;

// Times are picoseconds. Arrays over (stage, micro-batch) are indexed stage * microbatches + k.
struct SearchInstance {
  explicit SearchInstance(const SearchProblem& problem);

  int stages = 0, ranks = 0, microbatches = 0, kinds = 3;
  std::vector<int> rank_of_stage;
  std::vector<std::vector<int>> stages_of_rank;
  std::vector<std::int64_t> cost[3];                         // [kind][stage]
  std::vector<std::int64_t> forward_delay, backward_delay;   // as in SearchProblem
  std::vector<std::int64_t> activation_bytes, weight_bytes;  // per stage
  std::vector<std::int64_t> cap;                             // per rank
  // The number of I and W (B) of a stage that its cap requires before the k-th F can start.
  std::vector<std::int32_t> inputs_before, weights_before;  // [stage, k]
  // F of micro-batch k of a stage must not run before F of micro-batch k - room of a later stage of its rank:
  // what it adds stays until that stage's own I, so the later F would never fit again. Without this rule dead
  // ends are detected late.
  struct Ahead {
    int later = 0;
    std::int64_t room = 0;
    std::vector<std::int32_t> inputs;  // [k]: number of I of the later stage required before F of k
  };
  std::vector<std::vector<Ahead>> ahead;  // per stage; only those that can bind
  // The minimum time from the end of the k-th action of a kind to the end of the schedule.
  std::vector<std::int64_t> tail[3];  // [kind][stage, k]
  // Whether delaying a runnable F can pay off: true for a capped rank with several stages, where the F of
  // another stage may need the memory more urgently.
  std::vector<bool> may_hold;  // per rank

  std::size_t at(int stage, int k) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(microbatches) +
           static_cast<std::size_t>(k);
  }
};

// A partial schedule, as views into the owner's storage. Entry k of stage s of the ready times is valid once
// the action that it waits for is scheduled.
struct SearchState {
  std::uint16_t* done[3] = {};    // [kind][stage]: how many are scheduled
  std::uint16_t* held = nullptr;  // [stage]: 1 if its F may not run before an F of another stage of its rank
  std::int64_t* free = nullptr;   // [rank]: end of what is scheduled
  std::int64_t* ready[2] = {};    // [F, I][stage, k]
};

// Storage for one or many states: counts_size() numbers and times_size() times each.
inline std::size_t counts_size(const SearchInstance& in) { return 4 * static_cast<std::size_t>(in.stages); }
inline std::size_t times_size(const SearchInstance& in) {
  return static_cast<std::size_t>(in.ranks) +
         2 * static_cast<std::size_t>(in.stages) * static_cast<std::size_t>(in.microbatches);
}
SearchState view(const SearchInstance& in, std::uint16_t* counts, std::int64_t* times);

inline std::int64_t held_bytes(const SearchInstance& in, const SearchState& st, int rank) {
  std::int64_t sum = 0;
  for (const int s : in.stages_of_rank[static_cast<std::size_t>(rank)]) {
    const auto u = static_cast<std::size_t>(s);
    sum += (st.done[kForward][s] - st.done[kInput][s]) * in.activation_bytes[u] +
           (st.done[kInput][s] - st.done[kWeight][s]) * in.weight_bytes[u];
  }
  return sum;
}

// Whether the next action of this kind can be appended to its rank's order now; then when it starts.
bool is_candidate(const SearchInstance& in, const SearchState& st, int stage, int kind);
std::int64_t start_of(const SearchInstance& in, const SearchState& st, int stage, int kind);
// Appends the move and returns its end.
std::int64_t apply(const SearchInstance& in, const SearchState& st, Move move);

}  // namespace braid::pipeline
