#include "pipeline/liveness_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "pipeline/validate.h"

namespace braid::pipeline {
namespace {

using enum ActionKind;

using Activations = IdVector<std::ptrdiff_t, HeldActivation>;

class Collector {
 public:
  Collector(const PipelineSchedule& s, int rank, std::span<const int> stages)
      : s_(s), rank_(rank), stages_(stages) {}

  Activations run() {
    check_arguments();
    for (const int stage : stages_)
      for (int m = 0; m < s_.microbatches; ++m) activations_.push_back({stage, m, -1, -1, 0});
    input_.assign(activations_.size(), 0);
    int index = 0;
    each_cell(s_.rows[rank_], [&](std::size_t, std::size_t p, std::span<const Action> cell) {
      position_ = p;
      // Members run concurrently: an activation that begins in a container may end in it, in any order.
      for (const Action a : cell)
        if (a.kind == forward) visit(a, index);
      for (const Action a : cell)
        if (a.kind == backward_input) visit(a, index);
      for (const Action a : cell)
        if (gives_weight_gradient(a.kind)) visit(a, index);
      ++index;
    });
    for (const HeldActivation& l : activations_) {
      if (l.start < 0) missing({forward, l.stage, l.microbatch});
      if (l.end < 0) missing({full_backward, l.stage, l.microbatch});
    }
    return std::move(activations_);
  }

 private:
  void check_arguments() const {
    if (rank_ < 0 || rank_ >= s_.ranks())
      fail(fmt::format("there is no rank {}: there are {} ranks", rank_, s_.ranks()));
    if (stages_.empty()) fail("no stage is given");
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      if (stages_[i] < 0 || stages_[i] >= s_.stages()) fail(fmt::format("there is no stage {}", stages_[i]));
      if (s_.rank_of_stage[stages_[i]] != rank_)
        fail(fmt::format("stage {} does not belong to rank {}", stages_[i], rank_));
      if (std::ranges::find(stages_.first(i), stages_[i]) != stages_.first(i).end())
        fail(fmt::format("stage {} is given twice", stages_[i]));
    }
  }

  void visit(Action a, int cell) {
    const auto at = std::ranges::find(stages_, a.stage);
    if (at == stages_.end()) return;
    if (a.microbatch < 0 || a.microbatch >= s_.microbatches) fail(a, "there is no such micro-batch");
    const std::ptrdiff_t i = (at - stages_.begin()) * s_.microbatches + a.microbatch;
    HeldActivation& l = activations_[i];
    if (a.kind == forward) {
      if (l.start >= 0) fail(a, "it occurs twice");
      l.start = cell;
      return;
    }
    if (l.start < 0) fail(a, "there is no F before it");
    if (a.kind == backward_input) {
      if (input_[i] || l.end >= 0) fail(a, "it occurs twice");
      input_[i] = 1;
      return;
    }
    if (l.end >= 0) fail(a, "the activation was already released");
    if (a.kind == backward_weight && !input_[i]) fail(a, "there is no I before it");
    if (a.kind == full_backward && input_[i]) fail(a, "it follows an I, after which a W is expected");
    l.end = cell;
  }

  [[noreturn]] void fail(const std::string& what) const { ir::user_error(errors::kBadLifetime, {}, what); }
  [[noreturn]] void fail(Action a, const char* what) const {
    fail(fmt::format("{}: {}: {}", location_text(s_, rank_, position_), to_string(a), what));
  }
  [[noreturn]] void missing(Action a) const {
    fail(fmt::format("rank {}: {} is missing", rank_, to_string(a)));
  }

  const PipelineSchedule& s_;
  const int rank_;
  const std::span<const int> stages_;
  Activations activations_;
  IdVector<std::ptrdiff_t, char> input_;  // whether the I of the activation was seen
  std::size_t position_ = 0;
};

Activations by_microbatch(const Activations& activations, int microbatches) {
  Activations out;
  for (const HeldActivation& a : activations) {
    if (count_of(out) < microbatches) {
      out.push_back({-1, a.microbatch, a.start, a.end, 0});
    } else {
      HeldActivation& all = out[a.microbatch];
      all.start = std::min(all.start, a.start);
      all.end = std::max(all.end, a.end);
    }
  }
  return out;
}

int assign_slots(Activations& activations) {
  std::vector<HeldActivation*> starts;
  for (HeldActivation& a : activations) starts.push_back(&a);
  std::vector<HeldActivation*> ends = starts;
  std::ranges::stable_sort(starts, {}, &HeldActivation::start);
  std::ranges::stable_sort(ends, {}, &HeldActivation::end);
  std::priority_queue<int, std::vector<int>, std::greater<>> free;
  int slots = 0;
  auto ended = ends.begin();
  for (HeldActivation* const a : starts) {
    for (; (*ended)->end < a->start; ++ended) free.push((*ended)->slot);
    if (free.empty()) {
      a->slot = slots++;
    } else {
      a->slot = free.top();
      free.pop();
    }
  }
  return slots;
}

}  // namespace

ActivationSlots liveness_slots(const PipelineSchedule& schedule, int rank, std::span<const int> stages,
                               SlotGranularity granularity) {
  Activations activations = Collector(schedule, rank, stages).run();
  if (granularity == SlotGranularity::microbatch)
    activations = by_microbatch(activations, schedule.microbatches);
  const int slots = assign_slots(activations);
  return {slots, std::move(activations)};
}

}  // namespace braid::pipeline
