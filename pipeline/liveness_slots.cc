#include "pipeline/liveness_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include "ir/error.h"
#include "pipeline/errors.h"
#include "pipeline/validate.h"

namespace braid::pipeline {
namespace {

using enum ActionKind;

class Lifetimes {
 public:
  Lifetimes(const Schedule& s, int rank, std::span<const int> stages) : s_(s), rank_(rank), stages_(stages) {}

  std::vector<Lifetime> run() {
    check_arguments();
    const auto m = static_cast<std::size_t>(s_.microbatches);
    lifetimes_.resize(stages_.size() * m);
    input_.assign(lifetimes_.size(), 0);
    for (std::size_t i = 0; i < lifetimes_.size(); ++i)
      lifetimes_[i] = {stages_[i / m], static_cast<std::int32_t>(i % m), -1, -1, 0};
    const Row& row = s_.rows[static_cast<std::size_t>(rank_)];
    each_cell(row, [&](std::size_t cell, std::size_t p, std::span<const Action> cell_members) {
      position_ = p;
      // Members run concurrently: an activation that begins in a container may end in it, in any order.
      for (const Action a : cell_members)
        if (a.kind == forward) visit(a, cell);
      for (const Action a : cell_members)
        if (a.kind == backward_input) visit(a, cell);
      for (const Action a : cell_members)
        if (a.kind == full_backward || a.kind == backward_weight) visit(a, cell);
    });
    for (const Lifetime& l : lifetimes_) {
      if (l.start < 0) missing({forward, l.stage, l.microbatch});
      if (l.end < 0) missing({full_backward, l.stage, l.microbatch});
    }
    return std::move(lifetimes_);
  }

 private:
  void check_arguments() const {
    if (rank_ < 0 || rank_ >= s_.ranks())
      fail(fmt::format("there is no rank {}: there are {} ranks", rank_, s_.ranks()));
    if (stages_.empty()) fail("no stage is given");
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      if (stages_[i] < 0 || stages_[i] >= s_.stages()) fail(fmt::format("there is no stage {}", stages_[i]));
      if (s_.rank_of_stage[static_cast<std::size_t>(stages_[i])] != rank_)
        fail(fmt::format("stage {} does not belong to rank {}", stages_[i], rank_));
      if (std::ranges::find(stages_.first(i), stages_[i]) != stages_.first(i).end())
        fail(fmt::format("stage {} is given twice", stages_[i]));
    }
  }

  void visit(Action a, std::size_t cell) {
    const auto at = std::ranges::find(stages_, a.stage);
    if (at == stages_.end()) return;
    if (a.microbatch < 0 || a.microbatch >= s_.microbatches) fail(a, "there is no such micro-batch");
    const auto i =
        static_cast<std::size_t>(at - stages_.begin()) * static_cast<std::size_t>(s_.microbatches) +
        static_cast<std::size_t>(a.microbatch);
    Lifetime& l = lifetimes_[i];
    if (a.kind == forward) {
      if (l.start >= 0) fail(a, "it occurs twice");
      l.start = static_cast<std::int32_t>(cell);
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
    l.end = static_cast<std::int32_t>(cell);
  }

  [[noreturn]] void fail(const std::string& what) const { ir::user_error(kBadLifetime, {}, what); }
  [[noreturn]] void fail(Action a, const char* what) const {
    fail(fmt::format("{}: {}: {}", place(s_, rank_, position_), to_string(a), what));
  }
  [[noreturn]] void missing(Action a) const {
    fail(fmt::format("rank {}: {} is missing", rank_, to_string(a)));
  }

  const Schedule& s_;
  const int rank_;
  const std::span<const int> stages_;
  std::vector<Lifetime> lifetimes_;
  std::vector<char> input_;  // per lifetime: its I was seen
  std::size_t position_ = 0;
};

std::vector<Lifetime> by_microbatch(const std::vector<Lifetime>& lifetimes, int microbatches) {
  std::vector<Lifetime> out(static_cast<std::size_t>(microbatches));
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    const Lifetime& l = lifetimes[i];
    Lifetime& all = out[static_cast<std::size_t>(l.microbatch)];
    if (i < out.size()) {
      all = {-1, l.microbatch, l.start, l.end, 0};
    } else {
      all.start = std::min(all.start, l.start);
      all.end = std::max(all.end, l.end);
    }
  }
  return out;
}

int assign_slots(std::vector<Lifetime>& lifetimes) {
  std::vector<std::size_t> starts(lifetimes.size());
  std::iota(starts.begin(), starts.end(), std::size_t{0});
  std::vector<std::size_t> ends = starts;
  std::ranges::stable_sort(starts, {}, [&](std::size_t i) { return lifetimes[i].start; });
  std::ranges::stable_sort(ends, {}, [&](std::size_t i) { return lifetimes[i].end; });
  std::priority_queue<int, std::vector<int>, std::greater<>> free;
  int slots = 0;
  std::size_t ended = 0;
  for (const std::size_t i : starts) {
    for (; lifetimes[ends[ended]].end < lifetimes[i].start; ++ended) free.push(lifetimes[ends[ended]].slot);
    if (free.empty()) {
      lifetimes[i].slot = slots++;
    } else {
      lifetimes[i].slot = free.top();
      free.pop();
    }
  }
  return slots;
}

}  // namespace

ActivationSlots liveness_slots(const Schedule& schedule, int rank, std::span<const int> stages,
                               SlotGranularity granularity) {
  ActivationSlots out;
  out.lifetimes = Lifetimes(schedule, rank, stages).run();
  if (granularity == SlotGranularity::microbatch)
    out.lifetimes = by_microbatch(out.lifetimes, schedule.microbatches);
  out.slots = assign_slots(out.lifetimes);
  return out;
}

}  // namespace braid::pipeline
