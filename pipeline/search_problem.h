// The problem of the schedule search and its exact model.
//
// A stage has a forward F, a backward for its input I and a backward for its weights W, each executed once
// per micro-batch (or F and one full backward B if backwards are not split). Any placement of stages on ranks
// is allowed. The search chooses the order of each rank's compute actions. The model:
//
//  1. A rank computes one action at a time, without preemption, in its order, each as early as possible.
//  2. F of stage s waits for F of stage s-1 of the same micro-batch plus forward_delay[s-1]; I of stage s
//     waits for I of stage s+1 plus backward_delay[s]; I of the last stage waits for its own F; W waits for
//     its I. A delay (latency plus bytes over bandwidth of the link; zero between stages of one rank) is pure
//     latency: transfers occupy neither a compute stream nor each other. Queues with contention or
//     head-of-line blocking can only make the schedule longer; the driver (search.h) reports by how much.
//  3. F takes activation_bytes of its rank when it starts; weight_bytes of them remain after I, none after W
//     (or B). The sum on a rank may never exceed byte_cap[rank]. Receive buffers, weights and gradients are
//     not counted: subtract them from the cap.
//  4. The makespan is the end of the last action.
//
// Micro-batches are identical, hence WLOG every stage executes F in micro-batch order, and likewise I and W.
// To see this, take any schedule, sort the starts of each (stage, kind) and assign the k-th execution to
// micro-batch k. Every constraint of 2. says "each start at this stage is at least d after an end at that
// stage, one to one", which then holds between the k-th smallest of both; 1. and 3. do not depend on
// micro-batch numbers. So the state of a partial schedule is three counts per stage and some times.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "analysis/costs/time.h"
#include "pipeline/action.h"
#include "pipeline/schedule.h"

namespace braid::pipeline {

struct SearchStage {
  analysis::Time forward;
  analysis::Time backward_input;   // I; B if backwards are not split
  analysis::Time backward_weight;  // W; unused if backwards are not split
  std::int64_t activation_bytes = 0;
  std::int64_t weight_bytes = 0;  // the part of activation_bytes held from the end of I to the end of W
};

inline constexpr std::int64_t kNoByteCap = std::numeric_limits<std::int64_t>::max();

struct SearchProblem {
  RankOfStage rank_of_stage;
  std::int32_t ranks = 0;
  std::int32_t microbatches = 0;
  bool split_backward = true;
  PerStage<SearchStage> stages;
  PerStage<analysis::Time> forward_delay;   // [s]: from stage s to stage s+1
  PerStage<analysis::Time> backward_delay;  // [s]: from stage s+1 to stage s
  PerRank<std::int64_t> byte_cap;           // empty: none

  int stage_count() const { return count_of(stages); }
  std::int64_t cap(int rank) const { return byte_cap.empty() ? kNoByteCap : byte_cap[rank]; }
  // The number of kinds of compute actions of a stage.
  int kinds() const { return split_backward ? 3 : 2; }
  std::int64_t actions() const { return std::int64_t{kinds()} * stage_count() * microbatches; }
};

// Throws BR0880 if sizes disagree, a stage has no rank, a number is negative or times can overflow, and
// BR0881 if a single micro-batch exceeds a cap.
void check(const SearchProblem& problem);

// One compute action without its micro-batch number, which is the count of equal moves before it.
struct Move {
  std::int16_t stage = 0;
  std::int16_t kind = 0;  // 0: F, 1: I or B, 2: W

  Move() = default;
  Move(int stage, int kind)
      : stage(static_cast<std::int16_t>(stage)), kind(static_cast<std::int16_t>(kind)) {}
  friend bool operator==(const Move&, const Move&) = default;
};
using Orders = PerRank<std::vector<Move>>;

struct Evaluation {
  enum class Status : std::uint8_t { ok, stuck, over_cap } status = Status::ok;
  analysis::Time makespan;
};

// The end of each move of each rank, and all moves as (rank, position) in an executable order.
struct MoveTimes {
  PerRank<std::vector<analysis::Time>> ends;
  std::vector<std::pair<int, std::size_t>> sequence;
};

// Applies rules 1 to 4 to the given orders. `stuck`: the orders wait for each other. O(actions).
Evaluation evaluate(const SearchProblem& problem, const Orders& orders, MoveTimes* timeline = nullptr);

// Converts between orders and compute-only rows. from_rows reads compute actions only, splits containers and
// renumbers micro-batches in order of execution; a B becomes I, W if backwards are split, otherwise I, W
// become B at the place of I.
PipelineSchedule to_schedule(const SearchProblem& problem, const Orders& orders);
Orders from_rows(const SearchProblem& problem, const PipelineSchedule& schedule);
// to_schedule(from_rows()) that keeps the rows' idle cells, since they affect where add_send_recv puts RECVs.
// For rows with exactly the problem's actions.
PipelineSchedule in_problem_kinds(const SearchProblem& problem, const PipelineSchedule& schedule);

}  // namespace braid::pipeline
