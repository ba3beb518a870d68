#include "pipeline/add_send_recv.h"

#include <fmt/format.h>

#include <bit>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "pipeline/transfers.h"
#include "pipeline/validate.h"

namespace braid::pipeline {
namespace {

using enum ActionKind;

class Inserter {
 public:
  explicit Inserter(const PipelineSchedule& in)
      : in_(in),
        out_{in.rank_of_stage, PerRank<Row>(in.rows.ids()), in.microbatches},
        placed_(stage_microbatches(in)),
        next_(in.rows.ids()),
        runnable_((in.rows.size() + 63) / 64, 0) {
    for (const int s : in.rank_of_stage.ids())
      stages_.push_back({sent_between(in, s - 1), sent_between(in, s), handed_over_between(in, s - 1),
                         handed_over_between(in, s)});
  }

  PipelineSchedule run() && {
    reserve();
    for (const int r : in_.rows.ids())
      if (!in_.rows[r].empty()) wake(r);
    for (bool any = true; any;) any = round();
    for (const int r : in_.rows.ids())
      if (next_[r] < in_.rows[r].size()) report();
    return std::move(out_);
  }

 private:
  struct Stage {
    bool recv_forward, recv_backward;  // over a channel
    bool take_forward, take_backward;  // from a stage of the same rank
  };

  // At most one SEND and one RECV belong to each forward and each backward.
  void reserve() {
    for (const int r : in_.rows.ids()) {
      std::size_t n = in_.rows[r].size();
      for (const Action a : in_.rows[r])
        if (is_compute(a.kind) && a.kind != backward_weight) {
          const Stage& s = stages_[a.stage];
          n += std::size_t{s.recv_forward} + std::size_t{s.recv_backward};
        }
      out_.rows[r].reserve(n);
    }
  }

  void wake(int rank) { runnable_[rank / 64] |= std::uint64_t{1} << (rank % 64); }

  // Ranks after the current one that become runnable still get their turn in this round.
  bool round() {
    bool any = false;
    for (const int word : runnable_.ids()) {
      std::uint64_t later = ~std::uint64_t{0};
      while (const std::uint64_t open = runnable_[word] & later) {
        const int b = std::countr_zero(open);
        later = b == 63 ? 0 : ~std::uint64_t{0} << (b + 1);
        any = true;
        turn(word * 64 + b);
      }
    }
    return any;
  }

  void turn(int rank) {
    const Row& row = in_.rows[rank];
    const std::size_t p = next_[rank];
    const auto actions = members(row, p);
    for (const Action a : actions)
      if (!ready(a)) return sleep(rank);
    next_[rank] += cell_size(row, p);
    if (next_[rank] == row.size()) sleep(rank);
    if (row[p].kind == idle) return;
    Row& out = out_.rows[rank];
    append(out, entries(row, p));
    for (const Action a : actions) finish(a, out);
  }

  void sleep(int rank) { runnable_[rank / 64] &= ~(std::uint64_t{1} << (rank % 64)); }

  bool ready(Action a) const {
    if (a.kind > full_backward || a.kind == backward_weight || a.kind == idle) return true;
    const Stage& s = stages_[a.stage];
    const StageMicrobatch id = stage_microbatch(in_, a);
    const int m = in_.microbatches;
    if (a.kind == forward)
      return s.recv_forward ? (placed_[id] & bit(recv_forward)) != 0
                            : !s.take_forward || (placed_[id - m] & bit(forward)) != 0;
    return s.recv_backward ? (placed_[id] & bit(recv_backward)) != 0
                           : !s.take_backward || (placed_[id + m] & kInputGradient) != 0;
  }

  void finish(Action a, Row& out) {
    if (!is_compute(a.kind) || a.kind == backward_weight) return;
    placed_[stage_microbatch(in_, a)] |= bit(a.kind);
    const bool up = a.kind == forward;
    if (up ? !stages_[a.stage].recv_backward : !stages_[a.stage].recv_forward) return;
    const Action send{up ? send_forward : send_backward, a.stage, a.microbatch};
    const Action recv = counterpart(send);
    const int peer = in_.rank_of_stage[recv.stage];
    out.push_back(send);
    out_.rows[peer].push_back(recv);
    placed_[stage_microbatch(in_, recv)] |= bit(recv.kind);
    if (next_[peer] < in_.rows[peer].size()) wake(peer);
  }

  [[noreturn]] void report() const {
    std::string text;
    for (const int r : in_.rows.ids()) {
      const Row& row = in_.rows[r];
      const std::size_t p = next_[r];
      if (p == row.size()) continue;
      text += fmt::format("\n  {}: {}", location_text(in_, r, p), cell_text(row, p));
      for (const Action a : members(row, p))
        if (!ready(a)) text += " needs " + missing(a);
    }
    ir::user_error(errors::kNoProgress, {}, "the ranks wait for each other:" + text,
                   "order the rows so that no action waits, through other ranks, for one behind it");
  }

  std::string missing(Action a) const {
    const bool up = a.kind == forward;
    const Action needed = {a.kind, up ? a.stage - 1 : a.stage + 1, a.microbatch};
    return fmt::format("{} of rank {}", to_string(needed), in_.rank_of_stage[needed.stage]);
  }

  const PipelineSchedule& in_;
  PipelineSchedule out_;
  IdVector<StageMicrobatch, KindSet> placed_;
  PerRank<std::size_t> next_;              // position in the row
  IdVector<int, std::uint64_t> runnable_;  // a bit for each rank, set if its next cell may be ready
  PerStage<Stage> stages_;
};

}  // namespace

PipelineSchedule add_send_recv(const PipelineSchedule& schedule) { return Inserter(schedule).run(); }

}  // namespace braid::pipeline
