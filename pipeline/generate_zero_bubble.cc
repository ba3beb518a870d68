#include <algorithm>
#include <utility>

#include "pipeline/interleave.h"
#include "pipeline/placement.h"
#include "pipeline/published_schedules.h"

namespace braid::pipeline {
namespace {

Row zero_bubble_row(const Interleave& order, std::int32_t rank, std::int32_t ranks) {
  Row row;
  const std::int64_t all = order.actions();
  const std::int32_t after = ranks - 1 - rank;
  const std::int64_t ahead = std::int64_t{order.local_stages() - 1} * order.per_round() + after;
  const std::int64_t warm_up = std::min(ahead, all);
  row.reserve(static_cast<std::size_t>(rank + after + 3 * all));

  std::int64_t input = 0, weight = 0;
  const auto backward = [&] {
    row.push_back(order.backward(ActionKind::backward_input, rank, input++));
    if (input > rank) row.push_back(order.backward(ActionKind::backward_weight, rank, weight++));
  };
  append_idle(row, rank);
  for (std::int64_t k = 0; k < warm_up; ++k) row.push_back(order.forward(rank, k));
  if (warm_up > 0) append_idle(row, after);
  for (std::int64_t k = warm_up; k < all; ++k) {
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
  explicit ForwardColumns(Schedule& schedule)
      : schedule_(schedule),
        column_(static_cast<std::size_t>(schedule.stages()) * static_cast<std::size_t>(schedule.microbatches),
                -1),
        ranks_(schedule.rows.size()) {}

  void run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].spaced.reserve(schedule_.rows[r].size() + 2 * ranks_.size());
      ready_.push_back(r);
    }
    while (!ready_.empty()) {
      const std::size_t rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) schedule_.rows[r] = std::move(ranks_[r].spaced);
  }

 private:
  struct Rank {
    Row spaced;
    std::size_t next = 0;
    std::int64_t waits_for = -1;  // index of the forward, -1: none
  };

  std::int64_t index(std::int32_t stage, std::int32_t microbatch) const {
    return std::int64_t{stage} * schedule_.microbatches + microbatch;
  }

  void advance(std::size_t r) {
    Rank& rank = ranks_[r];
    rank.waits_for = -1;
    for (const Row& row = schedule_.rows[r]; rank.next < row.size(); ++rank.next) {
      const Action a = row[rank.next];
      if (a.kind == ActionKind::forward) {
        if (a.stage > 0) {
          const std::int64_t needed = index(a.stage - 1, a.microbatch);
          const std::int64_t column = column_[static_cast<std::size_t>(needed)];
          if (column < 0) {
            rank.waits_for = needed;
            return;
          }
          append_idle(rank.spaced,
                      static_cast<std::int32_t>(column + 1 - static_cast<std::int64_t>(rank.spaced.size())));
        }
        const std::int64_t own = index(a.stage, a.microbatch);
        column_[static_cast<std::size_t>(own)] = static_cast<std::int64_t>(rank.spaced.size());
        if (a.stage + 1 < schedule_.stages()) {
          const auto peer =
              static_cast<std::size_t>(schedule_.rank_of_stage[static_cast<std::size_t>(a.stage) + 1]);
          if (peer != r && ranks_[peer].waits_for == own) ready_.push_back(peer);
        }
      }
      rank.spaced.push_back(a);
    }
  }

  Schedule& schedule_;
  std::vector<std::int64_t> column_;  // of each forward, -1: not known yet
  std::vector<Rank> ranks_;
  std::vector<std::size_t> ready_;
};

}  // namespace

Schedule generate_interleaved_zero_bubble(const GeneratorOptions& o) {
  check_sizes("InterleavedZeroBubble", o, 0);
  const Interleave order("InterleavedZeroBubble", o);
  Schedule schedule = empty_schedule(o, loop_placement(o.ranks, o.stages));
  for (std::int32_t r = 0; r < o.ranks; ++r) {
    schedule.rows[static_cast<std::size_t>(r)] = zero_bubble_row(order, r, o.ranks);
  }
  ForwardColumns(schedule).run();
  return schedule;
}

}  // namespace braid::pipeline
