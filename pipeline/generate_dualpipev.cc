#include <utility>

#include "pipeline/generator_sizes.h"
#include "pipeline/placement.h"
#include "pipeline/published_schedules.h"

namespace braid::pipeline {
namespace {

// The row of one rank, phase by phase as DualPipe's source numbers them.
class DualPipeRow {
 public:
  DualPipeRow(const GeneratorOptions& o, std::int32_t rank) : o_(o), rank_(rank) {
    stage_[0] = rank;
    stage_[1] = o.stages - 1 - rank;
  }

  Row make() {
    const std::int32_t after = o_.ranks - 1 - rank_;
    row_ = row_after_idle(0, 6 * o_.microbatches + 2 * o_.ranks);
    // 1, 2: fill both arms of the V.
    for (std::int32_t k = 0; k < 2 * after; ++k) put(forward(0));
    for (std::int32_t k = 0; k <= rank_; ++k) {
      put(forward(0));
      put(forward(1));
    }
    // 3: the first backwards of the upper arm, split so that the next rank can continue.
    for (std::int32_t k = 0; k < after; ++k) {
      split_backward(1);
      oldest_weight();
      put(forward(1));
    }
    steady(o_.microbatches - 2 * o_.ranks + rank_ + 1);
    // 5: the lower arm has no forwards left.
    for (std::int32_t k = 0; k < after; ++k) {
      put(full_backward(1));
      overlap(forward(1), full_backward(0));
    }
    drain(after);
    return std::move(row_);
  }

 private:
  // 4: forwards of one arm beside backwards of the other.
  void steady(std::int32_t pairs) {
    for (std::int32_t k = 0; k < pairs; ++k) {
      if (k == 0 && rank_ == o_.ranks - 1) {  // one after another: a smaller bubble
        put(forward(0));
        put(full_backward(1));
      } else {
        overlap(forward(0), full_backward(1));
      }
      overlap(forward(1), full_backward(0));
    }
  }

  // 6, 7, 8: the second half of the last backwards is split, and their W fill the end.
  void drain(std::int32_t after) {
    const std::int32_t change = (rank_ + 1) / 2;
    for (std::int32_t k = 0; k <= rank_; ++k) {
      const bool odd = rank_ % 2 == 1;
      backward(1, odd ? k >= change : k > change);
      backward(0, k >= change);
    }
    for (std::int32_t k = 0; k < after; ++k) {
      oldest_weight();
      split_backward(0);
    }
    while (oldest_ < pending_.size()) oldest_weight();
  }

  Action forward(int chunk) { return {ActionKind::forward, stage_[chunk], forwards_[chunk]++}; }
  Action full_backward(int chunk) { return {ActionKind::full_backward, stage_[chunk], backwards_[chunk]++}; }
  void backward(int chunk, bool split) {
    if (split) {
      split_backward(chunk);
    } else {
      put(full_backward(chunk));
    }
  }
  void split_backward(int chunk) {
    const std::int32_t microbatch = backwards_[chunk]++;
    put({ActionKind::backward_input, stage_[chunk], microbatch});
    pending_.push_back({ActionKind::backward_weight, stage_[chunk], microbatch});
  }
  void oldest_weight() {
    if (oldest_ < pending_.size()) put(pending_[oldest_++]);
  }
  void put(Action action) { row_.push_back(action); }
  void overlap(Action first, Action second) {
    put({ActionKind::overlap_f_b, -1, 2});
    put(first);
    put(second);
  }

  const GeneratorOptions& o_;
  std::int32_t rank_;
  std::int32_t stage_[2];
  std::int32_t forwards_[2] = {}, backwards_[2] = {};
  Row row_, pending_;  // pending: the W that follow the I so far
  std::size_t oldest_ = 0;
};

}  // namespace

PipelineSchedule generate_dualpipev(const GeneratorOptions& o) {
  check_sizes("DualPipeV", o, 2);
  if (o.microbatches < o.stages)
    refuse_sizes("DualPipeV", o, "it requires at least as many micro-batches as stages");
  PipelineSchedule schedule = empty_schedule(o, v_placement(o.ranks, o.stages));
  for (std::int32_t r = 0; r < o.ranks; ++r) schedule.rows[r] = DualPipeRow(o, r).make();
  return schedule;
}

}  // namespace braid::pipeline
