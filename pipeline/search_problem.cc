#include "pipeline/search_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "ir/error.h"

namespace braid::pipeline {
namespace {

constexpr std::int64_t kMostTime = std::int64_t{1} << 60;
constexpr std::int64_t kMostActions = std::int64_t{1} << 24;

[[noreturn]] void bad(std::string message) {
  ir::user_error(
      880, {}, message,
      "give every stage a rank, three costs and its bytes, and every pair of neighbours two delays");
}

}  // namespace

void check(const SearchProblem& p) {
  const std::size_t stages = p.stages.size();
  const std::size_t links = stages == 0 ? 0 : stages - 1;
  if (p.ranks < 0 || p.microbatches < 0) bad("the number of ranks or micro-batches is negative");
  if (p.rank_of_stage.size() != stages)
    bad(fmt::format("{} stages have costs, but {} have a rank", stages, p.rank_of_stage.size()));
  if (p.forward_delay.size() != links || p.backward_delay.size() != links)
    bad(fmt::format("{} stages have {} links, but delays are given for {} forward and {} backward links",
                    stages, links, p.forward_delay.size(), p.backward_delay.size()));
  if (!p.byte_cap.empty() && p.byte_cap.size() != static_cast<std::size_t>(p.ranks))
    bad(fmt::format("got {} byte caps for {} ranks", p.byte_cap.size(), p.ranks));
  // 16-bit counts and 32-bit positions hold what is below.
  if (stages > 4096 || p.microbatches > 16384 || p.actions() > kMostActions)
    bad(fmt::format(
        "{} stages with {} micro-batches are too many for a search (4096 stages, 16384 micro-batches, "
        "{} actions)",
        stages, p.microbatches, kMostActions));
  // Every time in the search is below the sum of everything.
  __int128 sum = 0, bytes = 0;
  const auto add = [&](analysis::Time t, std::int64_t times, std::string_view what, std::size_t at) {
    if (t.ps < 0) bad(fmt::format("{} of stage {} is negative", what, at));
    sum += static_cast<__int128>(t.ps) * times;
  };
  for (std::size_t s = 0; s < stages; ++s) {
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
  for (std::size_t s = 0; s < stages; ++s) {
    const std::int32_t rank = p.rank_of_stage[s];
    // A rank with several stages may have to hold one micro-batch in all of them; the search finds out.
    if (p.stages[s].activation_bytes > p.cap(rank))
      ir::user_error(881, {},
                     fmt::format("one micro-batch of stage {} takes {} bytes, but rank {} may hold only {}",
                                 s, p.stages[s].activation_bytes, rank, p.cap(rank)),
                     "raise the cap, use smaller micro-batches or move the stage");
  }
}

Evaluation evaluate(const SearchProblem& p, const Orders& orders, Timeline* timeline) {
  const std::size_t stages = p.stages.size(), m = static_cast<std::size_t>(p.microbatches);
  std::vector<std::int64_t> ends[2];  // F and I by stage and micro-batch
  for (auto& e : ends) e.assign(stages * m, 0);
  std::vector<std::size_t> done[3];
  for (auto& d : done) d.assign(stages, 0);
  std::vector<std::size_t> next(orders.size(), 0);
  std::vector<std::int64_t> free(orders.size(), 0), bytes(orders.size(), 0);
  Evaluation out;
  if (timeline != nullptr) *timeline = {std::vector<std::vector<analysis::Time>>(orders.size()), {}};
  std::vector<std::size_t> ready(orders.size());  // ranks that may be able to go on
  for (std::size_t r = 0; r < ready.size(); ++r) ready[r] = r;
  while (!ready.empty()) {
    const std::size_t r = ready.back();
    ready.pop_back();
    for (; next[r] < orders[r].size(); ++next[r]) {
      const Move move = orders[r][next[r]];
      const auto s = static_cast<std::size_t>(move.stage);
      const auto kind = static_cast<std::size_t>(move.kind);
      const std::size_t k = done[kind][s];
      const SearchStage& stage = p.stages[s];
      std::int64_t start = free[r];
      if (kind == 0) {
        if (s > 0) {
          if (k >= done[0][s - 1]) break;
          start = std::max(start, ends[0][(s - 1) * m + k] + p.forward_delay[s - 1].ps);
        }
        bytes[r] += stage.activation_bytes;
        if (bytes[r] > p.cap(static_cast<int>(r))) return {Evaluation::Status::over_cap, {}};
        ends[0][s * m + k] = free[r] = start + stage.forward.ps;
      } else if (kind == 1) {
        if (k >= done[0][s] || (s + 1 < stages && k >= done[1][s + 1])) break;
        start = std::max(
            start, s + 1 < stages ? ends[1][(s + 1) * m + k] + p.backward_delay[s].ps : ends[0][s * m + k]);
        ends[1][s * m + k] = free[r] = start + stage.backward_input.ps;
        bytes[r] -= stage.activation_bytes - (p.split_backward ? stage.weight_bytes : 0);
      } else {
        if (k >= done[1][s]) break;
        free[r] = start + stage.backward_weight.ps;
        bytes[r] -= stage.weight_bytes;
      }
      ++done[kind][s];
      if (timeline != nullptr) {
        timeline->ends[r].push_back({free[r]});
        timeline->sequence.emplace_back(static_cast<std::int32_t>(r), static_cast<std::int32_t>(next[r]));
      }
      const auto wake = [&](std::size_t neighbour) {
        const auto other = static_cast<std::size_t>(p.rank_of_stage[neighbour]);
        if (other != r) ready.push_back(other);
      };
      if (kind == 0 && s + 1 < stages) wake(s + 1);
      if (kind == 1 && s > 0) wake(s - 1);
    }
  }
  for (std::size_t r = 0; r < orders.size(); ++r) {
    if (next[r] < orders[r].size()) return {Evaluation::Status::stuck, {}};
    out.makespan.ps = std::max(out.makespan.ps, free[r]);
  }
  return out;
}

namespace {

// visit(stage, kind) for what a cell of rows that only compute is in the problem's kinds of actions.
template <class Visit>
void each_move(const SearchProblem& p, std::span<const Action> cell, const Visit& visit) {
  for (const Action& a : cell) {
    const auto move = [&](int kind) {
      visit(Move{static_cast<std::int16_t>(a.stage), static_cast<std::int16_t>(kind)});
    };
    if (a.kind == ActionKind::forward) move(0);
    if (a.kind == ActionKind::backward_input || a.kind == ActionKind::full_backward) move(1);
    if (p.split_backward && (a.kind == ActionKind::backward_weight || a.kind == ActionKind::full_backward))
      move(2);
  }
}

// Moves as actions: the k-th of a stage and kind is that of micro-batch k.
class Numbering {
 public:
  explicit Numbering(const SearchProblem& p) : p_(p) {
    for (auto& d : done_) d.assign(p.stages.size(), 0);
  }

  Action next(Move move) {
    const ActionKind kind = move.kind == 0      ? ActionKind::forward
                            : move.kind == 2    ? ActionKind::backward_weight
                            : p_.split_backward ? ActionKind::backward_input
                                                : ActionKind::full_backward;
    return {kind, move.stage, done_[move.kind][static_cast<std::size_t>(move.stage)]++};
  }

 private:
  const SearchProblem& p_;
  std::vector<std::int32_t> done_[3];
};

}  // namespace

Schedule to_schedule(const SearchProblem& p, const Orders& orders) {
  Schedule out{p.rank_of_stage, {}, p.microbatches};
  Numbering numbering(p);
  for (const auto& order : orders) {
    Row& row = out.rows.emplace_back();
    for (const Move move : order) row.push_back(numbering.next(move));
  }
  return out;
}

Orders from_rows(const SearchProblem& p, const Schedule& schedule) {
  Orders out(schedule.rows.size());
  for (std::size_t r = 0; r < schedule.rows.size(); ++r) {
    each_cell(schedule.rows[r], [&](std::size_t, std::size_t, std::span<const Action> cell) {
      each_move(p, cell, [&](Move move) { out[r].push_back(move); });
    });
  }
  return out;
}

Schedule in_problem_kinds(const SearchProblem& p, const Schedule& schedule) {
  Schedule out{p.rank_of_stage, {}, p.microbatches};
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
