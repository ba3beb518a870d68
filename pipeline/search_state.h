// The search's internal representation: flat arrays for everything that does not depend on decisions, and
// partial schedules as counts and times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pipeline/search_problem.h"

namespace braid::pipeline {

inline constexpr int kForward = 0, kInput = 1, kWeight = 2;

// Times are picoseconds.
struct SearchInstance {
  explicit SearchInstance(const SearchProblem& problem);

  int stages = 0, ranks = 0, microbatches = 0, kinds = 3;
  RankOfStage rank_of_stage;
  PerRank<std::vector<int>> stages_of_rank;
  PerStage<std::int64_t> cost[3];                        // by kind
  PerStage<std::int64_t> forward_delay, backward_delay;  // as in SearchProblem
  PerStage<std::int64_t> activation_bytes, weight_bytes;
  PerRank<std::int64_t> cap;
  // The number of I and W (B) of a stage that its cap requires before the k-th F can start.
  IdVector<StageMicrobatch, int> inputs_before, weights_before;
  // F of micro-batch k of a stage must not run before F of micro-batch k - room of a later stage of its rank:
  // what it adds stays until that stage's own I, so the later F would never fit again. Without this rule dead
  // ends are detected late.
  struct Ahead {
    int later = 0;
    int room = 0;
    IdVector<int, int> inputs;  // [k]: number of I of the later stage required before F of k
  };
  PerStage<std::vector<Ahead>> ahead;  // only those that can bind
  // The minimum time from the end of the k-th action of a kind to the end of the schedule.
  IdVector<StageMicrobatch, std::int64_t> tail[3];  // by kind
  // Whether delaying a runnable F can pay off: true for a capped rank with several stages, where the F of
  // another stage may need the memory more urgently.
  PerRank<bool> may_hold;

  StageMicrobatch at(int stage, int k) const { return {stage * microbatches + k}; }
};

// A partial schedule, as views into the owner's storage. Entry k of stage s of the ready times is valid once
// the action that it waits for is scheduled.
struct SearchState {
  IdSpan<int, std::uint16_t> done[3];  // by kind: how many of each stage are scheduled
  IdSpan<int, std::uint16_t> held;  // by stage: 1 if its F may not run before an F of another one of its rank
  IdSpan<int, std::int64_t> free;   // by rank: the end of what is scheduled
  IdSpan<StageMicrobatch, std::int64_t> ready[2];  // of F and I
};

// Storage for one or many states: counts_size() numbers and times_size() times each.
inline std::size_t counts_size(const SearchInstance& in) { return 4 * in.rank_of_stage.size(); }
inline std::size_t times_size(const SearchInstance& in) {
  return in.cap.size() + 2 * in.tail[kForward].size();
}
SearchState view(const SearchInstance& in, std::span<std::uint16_t> counts, std::span<std::int64_t> times);

inline std::int64_t held_bytes(const SearchInstance& in, const SearchState& st, int rank) {
  std::int64_t sum = 0;
  for (const int s : in.stages_of_rank[rank])
    sum += (st.done[kForward][s] - st.done[kInput][s]) * in.activation_bytes[s] +
           (st.done[kInput][s] - st.done[kWeight][s]) * in.weight_bytes[s];
  return sum;
}

// Whether the next action of this kind can be appended to its rank's order now; then when it starts.
bool is_candidate(const SearchInstance& in, const SearchState& st, int stage, int kind);
std::int64_t start_of(const SearchInstance& in, const SearchState& st, int stage, int kind);
// Appends the move and returns its end.
std::int64_t apply(const SearchInstance& in, const SearchState& st, Move move);

}  // namespace braid::pipeline
