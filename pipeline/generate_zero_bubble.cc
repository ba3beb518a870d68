#include <algorithm>
#include <utility>

#include "pipeline/interleave.h"
#include "pipeline/placement.h"
#include "pipeline/published_schedules.h"
#include "pipeline/transfers.h"

namespace braid::pipeline {
namespace {

Row zero_bubble_row(const Interleave& order, std::int32_t rank, std::int32_t ranks) {
  const std::int32_t all = order.actions(), after = ranks - 1 - rank;
  const std::int32_t warm_up = std::min((order.local_stages() - 1) * order.per_round() + after, all);
  Row row = row_after_idle(rank, after + 3 * all);

  std::int32_t input = 0, weight = 0;
  const auto backward = [&] {
    row.push_back(order.backward(ActionKind::backward_input, rank, input++));
    if (input > rank) row.push_back(order.backward(ActionKind::backward_weight, rank, weight++));
  };
  for (std::int32_t k = 0; k < warm_up; ++k) row.push_back(order.forward(rank, k));
  if (warm_up > 0) append_idle(row, after);
  for (std::int32_t k = warm_up; k < all; ++k) {
    row.push_back(order.forward(rank, k));
    backward();
  }
  while (input < all) backward();
  while (weight < all) row.push_back(order.backward(ActionKind::backward_weight, rank, weight++));
  return row;
}

// Inserts idle cells so that the column of F(s) comes after that of F(s-1). It goes rank by rank as far as
// columns are known: a waiting rank is resumed when the forward that it needs has its column, so every cell
// is moved once.
class ForwardColumns {
 public:
  explicit ForwardColumns(PipelineSchedule& schedule)
      : schedule_(schedule), column_(stage_microbatches(schedule), -1), ranks_(schedule.rows.ids()) {}

  void run() {
    for (const int r : ranks_.ids()) {
      ranks_[r].spaced.reserve(schedule_.rows[r].size() + 2 * ranks_.size());
      ready_.push_back(r);
    }
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    for (const int r : ranks_.ids()) schedule_.rows[r] = std::move(ranks_[r].spaced);
  }

 private:
  struct Rank {
    Row spaced;
    std::size_t next = 0;
    StageMicrobatch waits_for;  // the forward; invalid: none
  };

  void advance(int r) {
    Rank& rank = ranks_[r];
    rank.waits_for = {};
    for (const Row& row = schedule_.rows[r]; rank.next < row.size(); ++rank.next) {
      const Action a = row[rank.next];
      if (a.kind == ActionKind::forward) {
        const StageMicrobatch own = stage_microbatch(schedule_, a);
        if (a.stage > 0) {
          const StageMicrobatch needed = own - schedule_.microbatches;
          if (column_[needed] < 0) {
            rank.waits_for = needed;
            return;
          }
          append_idle(rank.spaced, column_[needed] + 1 - count_of(rank.spaced));
        }
        column_[own] = count_of(rank.spaced);
        if (a.stage + 1 < schedule_.stages()) {
          const int peer = schedule_.rank_of_stage[a.stage + 1];
          if (peer != r && ranks_[peer].waits_for == own) ready_.push_back(peer);
        }
      }
      rank.spaced.push_back(a);
    }
  }

  PipelineSchedule& schedule_;
  IdVector<StageMicrobatch, int> column_;  // of the forward; -1: not known yet
  PerRank<Rank> ranks_;
  std::vector<int> ready_;  // ranks
};

}  // namespace

PipelineSchedule generate_interleaved_zero_bubble(const GeneratorOptions& o) {
  check_sizes("InterleavedZeroBubble", o, 0);
  const Interleave order("InterleavedZeroBubble", o);
  PipelineSchedule schedule = empty_schedule(o, loop_placement(o.ranks, o.stages));
  for (std::int32_t r = 0; r < o.ranks; ++r) schedule.rows[r] = zero_bubble_row(order, r, o.ranks);
  ForwardColumns(schedule).run();
  return schedule;
}

}  // namespace braid::pipeline
