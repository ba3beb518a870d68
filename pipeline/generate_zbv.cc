#include <algorithm>
#include <utility>

#include "pipeline/generator_sizes.h"
#include "pipeline/placement.h"
#include "pipeline/published_schedules.h"

namespace braid::pipeline {
namespace {

// The row of one rank. The phases are designed for at least 2P-1 micro-batches; cells of nonexistent ones
// become idle.
class ZbvRow {
 public:
  ZbvRow(const GeneratorOptions& o, std::int32_t rank)
      : o_(o), rank_(rank), planned_(std::max(2 * o.ranks - 1, o.microbatches)) {
    stage_[0] = rank;
    stage_[1] = o.stages - 1 - rank;
  }

  Row make() {
    row_ = row_after_idle(rank_, 6 * planned_);
    warm_up();
    steady();
    cool_down();
    return std::move(row_);
  }

 private:
  void warm_up() {
    for (std::int32_t k = 0; k < 2 * (o_.ranks - rank_) - 1; ++k) forward(0);
    for (std::int32_t k = 0; k < rank_; ++k) {
      forward(1);
      forward(0);
    }
    for (std::int32_t k = 0; k < o_.ranks - rank_; ++k) {
      forward(1);
      input(1);
      weight(1);
    }
  }

  void steady() {
    while (forwards_[1] < forwards_[0] || forwards_[0] < planned_) {
      if (forwards_[0] < planned_) forward(0);
      input(0);
      weight(0);
      forward(1);
      input(1);
      weight(1);
    }
  }

  void cool_down() {
    for (std::int32_t k = 0; k < rank_; ++k) {
      input(0);
      input(1);
    }
    for (std::int32_t k = 0; k < o_.ranks - rank_; ++k) {
      input(0);
      weight(0);
    }
    while (weights_[1] < inputs_[1]) weight(1);
    while (weights_[0] < inputs_[0]) weight(0);
  }

  void forward(int chunk) { append(ActionKind::forward, chunk, forwards_[chunk]++); }
  void input(int chunk) { append(ActionKind::backward_input, chunk, inputs_[chunk]++); }
  void weight(int chunk) { append(ActionKind::backward_weight, chunk, weights_[chunk]++); }
  void append(ActionKind kind, int chunk, std::int32_t microbatch) {
    row_.push_back(microbatch < o_.microbatches ? Action{kind, stage_[chunk], microbatch} : Action{});
  }

  const GeneratorOptions& o_;
  std::int32_t rank_;
  std::int32_t planned_;
  std::int32_t stage_[2];
  std::int32_t forwards_[2] = {}, inputs_[2] = {}, weights_[2] = {};
  Row row_;
};

}  // namespace

PipelineSchedule generate_zbv(const GeneratorOptions& o) {
  check_sizes("ZBVZeroBubble", o, 2);
  PipelineSchedule schedule = empty_schedule(o, v_placement(o.ranks, o.stages));
  for (std::int32_t r = 0; r < o.ranks; ++r) schedule.rows[r] = ZbvRow(o, r).make();
  return schedule;
}

}  // namespace braid::pipeline
