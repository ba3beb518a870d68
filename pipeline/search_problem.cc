#include "pipeline/search_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::pipeline {
namespace {

constexpr std::int64_t kMostTime = std::int64_t{1} << 60;
constexpr std::int64_t kMostActions = std::int64_t{1} << 24;

[[noreturn]] void bad(std::string message) {
  ir::user_error(
      errors::kBadSearch, {}, message,
      "give every stage a rank, three costs and its bytes, and every pair of neighbours two delays");
}

}  // namespace

void check(const SearchProblem& p) {
  const int stages = p.stage_count(), links = std::max(0, stages - 1);
  if (p.ranks < 0 || p.microbatches < 0) bad("the number of ranks or micro-batches is negative");
  if (count_of(p.rank_of_stage) != stages)
    bad(fmt::format("{} stages have costs, but {} have a rank", stages, p.rank_of_stage.size()));
  if (count_of(p.forward_delay) != links || count_of(p.backward_delay) != links)
    bad(fmt::format("{} stages have {} links, but delays are given for {} forward and {} backward links",
                    stages, links, p.forward_delay.size(), p.backward_delay.size()));
  if (!p.byte_cap.empty() && count_of(p.byte_cap) != p.ranks)
    bad(fmt::format("got {} byte caps for {} ranks", p.byte_cap.size(), p.ranks));
  // Below these limits, 16-bit counts and 32-bit positions suffice.
  if (stages > 4096 || p.microbatches > 16384 || p.actions() > kMostActions)
    bad(fmt::format(
        "{} stages with {} micro-batches are too many for a search (4096 stages, 16384 micro-batches, "
        "{} actions)",
        stages, p.microbatches, kMostActions));
  // No time in the search exceeds the sum of all times.
  __int128 sum = 0, bytes = 0;
  const auto add = [&](analysis::Time t, std::int64_t times, std::string_view what, int at) {
    if (t.ps < 0) bad(fmt::format("{} of stage {} is negative", what, at));
    sum += static_cast<__int128>(t.ps) * times;
  };
  for (const int s : p.stages.ids()) {
    const SearchStage& stage = p.stages[s];
    const std::int32_t rank = p.rank_of_stage[s];
    if (rank < 0 || rank >= p.ranks)
      bad(fmt::format("stage {} is on rank {}, expected 0 to {}", s, rank, p.ranks - 1));
    add(stage.forward, p.microbatches, "the time of F", s);
    add(stage.backward_input, p.microbatches, "the time of I", s);
    add(stage.backward_weight, p.microbatches, "the time of W", s);
    if (s < links) {
      add(p.forward_delay[s], p.microbatches, "the forward delay", s);
      add(p.backward_delay[s], p.microbatches, "the backward delay", s);
    }
    if (stage.weight_bytes < 0 || stage.weight_bytes > stage.activation_bytes)
      bad(fmt::format("stage {} cannot keep {} of {} bytes from I to W", s, stage.weight_bytes,
                      stage.activation_bytes));
    bytes += static_cast<__int128>(stage.activation_bytes) * p.microbatches;
  }
  if (sum > kMostTime || bytes > kMostTime) bad("the times or the bytes exceed 64 bits");
  if (p.microbatches == 0) return;
  for (const int s : p.stages.ids()) {
    const std::int32_t rank = p.rank_of_stage[s];
    // A rank with several stages may have to hold one micro-batch in all of them; the search detects that.
    if (p.stages[s].activation_bytes > p.cap(rank))
      ir::user_error(errors::kCapTooSmall, {},
                     fmt::format("one micro-batch of stage {} takes {} bytes, but rank {} may hold only {}",
                                 s, p.stages[s].activation_bytes, rank, p.cap(rank)),
                     "raise the cap, use smaller micro-batches or move the stage");
  }
}

Evaluation evaluate(const SearchProblem& p, const Orders& orders, MoveTimes* timeline) {
  const int last = p.stage_count() - 1;
  const auto id = [&](int stage, int k) { return StageMicrobatch{stage * p.microbatches + k}; };
  const IdVector<StageMicrobatch, std::int64_t> zero(first_ids<StageMicrobatch>((last + 1) * p.microbatches));
  IdVector<StageMicrobatch, std::int64_t> ends[] = {zero, zero};  // of F and I
  const PerStage<int> none(p.stages.ids());
  PerStage<int> done[] = {none, none, none};
  PerRank<std::size_t> next(orders.ids());
  PerRank<std::int64_t> free(orders.ids()), bytes(orders.ids());
  Evaluation out;
  if (timeline != nullptr) *timeline = {PerRank<std::vector<analysis::Time>>(orders.ids()), {}};
  std::vector<int> ready(orders.ids().begin(), orders.ids().end());  // ranks that may be able to go on
  while (!ready.empty()) {
    const int r = ready.back();
    ready.pop_back();
    for (; next[r] < orders[r].size(); ++next[r]) {
      const int s = orders[r][next[r]].stage, kind = orders[r][next[r]].kind;
      const int k = done[kind][s];
      const SearchStage& stage = p.stages[s];
      std::int64_t start = free[r];
      if (kind == 0) {
        if (s > 0) {
          if (k >= done[0][s - 1]) break;
          start = std::max(start, ends[0][id(s - 1, k)] + p.forward_delay[s - 1].ps);
        }
        bytes[r] += stage.activation_bytes;
        if (bytes[r] > p.cap(r)) return {Evaluation::Status::over_cap, {}};
        ends[0][id(s, k)] = free[r] = start + stage.forward.ps;
      } else if (kind == 1) {
        if (k >= done[0][s] || (s < last && k >= done[1][s + 1])) break;
        start =
            std::max(start, s < last ? ends[1][id(s + 1, k)] + p.backward_delay[s].ps : ends[0][id(s, k)]);
        ends[1][id(s, k)] = free[r] = start + stage.backward_input.ps;
        bytes[r] -= stage.activation_bytes - (p.split_backward ? stage.weight_bytes : 0);
      } else {
        if (k >= done[1][s]) break;
        free[r] = start + stage.backward_weight.ps;
        bytes[r] -= stage.weight_bytes;
      }
      ++done[kind][s];
      if (timeline != nullptr) {
        timeline->ends[r].push_back({free[r]});
        timeline->sequence.emplace_back(r, next[r]);
      }
      const int neighbour = kind == 0 ? s + 1 : s - 1;
      if (kind == 2 || neighbour < 0 || neighbour > last) continue;
      if (const int other = p.rank_of_stage[neighbour]; other != r) ready.push_back(other);
    }
  }
  for (const int r : orders.ids()) {
    if (next[r] < orders[r].size()) return {Evaluation::Status::stuck, {}};
    out.makespan.ps = std::max(out.makespan.ps, free[r]);
  }
  return out;
}

namespace {

// visit(move) for the members of a compute-only cell, in the problem's kinds of actions.
template <class Visit>
void each_move(const SearchProblem& p, std::span<const Action> cell, const Visit& visit) {
  for (const Action& a : cell) {
    if (a.kind == ActionKind::forward) visit(Move(a.stage, 0));
    if (gives_input_gradient(a.kind)) visit(Move(a.stage, 1));
    if (p.split_backward && gives_weight_gradient(a.kind)) visit(Move(a.stage, 2));
  }
}

// Moves as actions: the k-th of a stage and kind is that of micro-batch k.
class Numbering {
 public:
  explicit Numbering(const SearchProblem& p) : p_(p) {
    for (auto& d : done_) d.assign(p.stages.ids(), 0);
  }

  Action next(Move move) {
    const ActionKind kind = move.kind == 0      ? ActionKind::forward
                            : move.kind == 2    ? ActionKind::backward_weight
                            : p_.split_backward ? ActionKind::backward_input
                                                : ActionKind::full_backward;
    return {kind, move.stage, done_[move.kind][move.stage]++};
  }

 private:
  const SearchProblem& p_;
  PerStage<int> done_[3];  // by kind
};

}  // namespace

PipelineSchedule to_schedule(const SearchProblem& p, const Orders& orders) {
  PipelineSchedule out{p.rank_of_stage, {}, p.microbatches};
  Numbering numbering(p);
  for (const auto& order : orders) {
    Row& row = out.rows.emplace_back();
    for (const Move move : order) row.push_back(numbering.next(move));
  }
  return out;
}

Orders from_rows(const SearchProblem& p, const PipelineSchedule& schedule) {
  Orders out(schedule.rows.ids());
  for (const int r : schedule.rows.ids()) {
    each_cell(schedule.rows[r], [&](std::size_t, std::size_t, std::span<const Action> cell) {
      each_move(p, cell, [&](Move move) { out[r].push_back(move); });
    });
  }
  return out;
}

PipelineSchedule in_problem_kinds(const SearchProblem& p, const PipelineSchedule& schedule) {
  PipelineSchedule out{p.rank_of_stage, {}, p.microbatches};
  Numbering numbering(p);
  for (const Row& from : schedule.rows) {
    Row& row = out.rows.emplace_back();
    each_cell(from, [&](std::size_t, std::size_t, std::span<const Action> cell) {
      if (cell.front().kind == ActionKind::idle) row.push_back({});
      each_move(p, cell, [&](Move move) { row.push_back(numbering.next(move)); });
    });
  }
  return out;
}

}  // namespace braid::pipeline
