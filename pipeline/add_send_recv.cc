#include "pipeline/add_send_recv.h"

#include <fmt/format.h>

#include <bit>

#include "ir/error.h"
#include "pipeline/errors.h"
#include "pipeline/transfers.h"
#include "pipeline/validate.h"

namespace braid::pipeline {
namespace {

using enum ActionKind;

class Inserter {
 public:
  explicit Inserter(const Schedule& in)
      : in_(in),
        out_{in.rank_of_stage, std::vector<Row>(in.rows.size()), in.microbatches},
        placed_(dense_size(in), 0),
        next_(in.rows.size(), 0),
        runnable_((in.rows.size() + 63) / 64, 0),
        stages_(in.rank_of_stage.size()) {
    for (int s = 0; s < in.stages(); ++s) {
      Stage& stage = stages_[static_cast<std::size_t>(s)];
      stage.recv_forward = sent_between(in, s - 1);
      stage.recv_backward = sent_between(in, s);
      stage.take_forward = handed_over_between(in, s - 1);
      stage.take_backward = handed_over_between(in, s);
    }
  }

  Schedule run() && {
    reserve();
    for (std::size_t r = 0; r < in_.rows.size(); ++r)
      if (!in_.rows[r].empty()) wake(r);
    for (bool any = true; any;) any = round();
    for (std::size_t r = 0; r < in_.rows.size(); ++r)
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
    for (std::size_t r = 0; r < in_.rows.size(); ++r) {
      std::size_t n = in_.rows[r].size();
      for (const Action a : in_.rows[r])
        if (is_compute(a.kind) && a.kind != backward_weight) {
          const Stage& s = stages_[static_cast<std::size_t>(a.stage)];
          n += static_cast<std::size_t>(s.recv_forward) + static_cast<std::size_t>(s.recv_backward);
        }
      out_.rows[r].reserve(n);
    }
  }

  void wake(std::size_t rank) { runnable_[rank / 64] |= std::uint64_t{1} << (rank % 64); }

  // Ranks after the current one that become runnable still get their turn in this round.
  bool round() {
    bool any = false;
    for (std::size_t word = 0; word < runnable_.size(); ++word) {
      std::uint64_t later = ~std::uint64_t{0};
      while (const std::uint64_t open = runnable_[word] & later) {
        const int b = std::countr_zero(open);
        later = b == 63 ? 0 : ~std::uint64_t{0} << (b + 1);
        any = true;
        turn(word * 64 + static_cast<std::size_t>(b));
      }
    }
    return any;
  }

  void turn(std::size_t rank) {
    const Row& row = in_.rows[rank];
    const std::size_t p = next_[rank];
    const Action head = row[p];
    const std::size_t size = cell_size(row, p);
    for (std::size_t i = p + (size > 1); i < p + size; ++i)
      if (!ready(row[i])) return sleep(rank);
    next_[rank] = static_cast<std::uint32_t>(p + size);
    if (next_[rank] == row.size()) sleep(rank);
    if (head.kind == idle) return;
    Row& out = out_.rows[rank];
    for (std::size_t i = p; i < p + size; ++i) out.push_back(row[i]);
    for (std::size_t i = p + (size > 1); i < p + size; ++i) finish(row[i], out);
  }

  void sleep(std::size_t rank) { runnable_[rank / 64] &= ~(std::uint64_t{1} << (rank % 64)); }

  bool ready(Action a) const {
    if (a.kind > full_backward || a.kind == backward_weight || a.kind == idle) return true;
    const Stage& s = stages_[static_cast<std::size_t>(a.stage)];
    const std::size_t id = dense_id(in_, a);
    const auto m = static_cast<std::size_t>(in_.microbatches);
    if (a.kind == forward)
      return s.recv_forward ? (placed_[id] & bit(recv_forward)) != 0
                            : !s.take_forward || (placed_[id - m] & bit(forward)) != 0;
    return s.recv_backward ? (placed_[id] & bit(recv_backward)) != 0
                           : !s.take_backward || (placed_[id + m] & kInputGradient) != 0;
  }

  void finish(Action a, Row& out) {
    if (!is_compute(a.kind) || a.kind == backward_weight) return;
    const std::size_t id = dense_id(in_, a);
    placed_[id] |= bit(a.kind);
    const auto m = static_cast<std::size_t>(in_.microbatches);
    const auto stage = static_cast<std::size_t>(a.stage);
    if (a.kind == forward) {
      if (!stages_[stage].recv_backward) return;
      out.push_back({send_forward, a.stage, a.microbatch});
      place_recv({recv_forward, a.stage + 1, a.microbatch}, id + m);
    } else {
      if (!stages_[stage].recv_forward) return;
      out.push_back({send_backward, a.stage, a.microbatch});
      place_recv({recv_backward, a.stage - 1, a.microbatch}, id - m);
    }
  }

  void place_recv(Action recv, std::size_t id) {
    const auto peer = static_cast<std::size_t>(in_.rank_of_stage[static_cast<std::size_t>(recv.stage)]);
    out_.rows[peer].push_back(recv);
    placed_[id] |= bit(recv.kind);
    if (next_[peer] < in_.rows[peer].size()) wake(peer);
  }

  [[noreturn]] void report() const {
    std::string text;
    for (std::size_t r = 0; r < in_.rows.size(); ++r) {
      const Row& row = in_.rows[r];
      const std::size_t p = next_[r];
      if (p == row.size()) continue;
      text += fmt::format("\n  {}: {}", place(in_, static_cast<int>(r), p), cell_text(row, p));
      for (const Action a : members(row, p))
        if (!ready(a)) text += " needs " + missing(a);
    }
    ir::user_error(kNoProgress, {}, "the ranks wait for each other:" + text,
                   "order the rows so that no action waits, through other ranks, for one behind it");
  }

  std::string missing(Action a) const {
    const bool up = a.kind == forward;
    const Action needed = {a.kind, up ? a.stage - 1 : a.stage + 1, a.microbatch};
    return fmt::format("{} of rank {}", to_string(needed),
                       in_.rank_of_stage[static_cast<std::size_t>(needed.stage)]);
  }

  const Schedule& in_;
  Schedule out_;
  std::vector<KindSet> placed_;          // per (stage, micro-batch)
  std::vector<std::uint32_t> next_;      // per rank
  std::vector<std::uint64_t> runnable_;  // a bit per rank whose next cell may be ready
  std::vector<Stage> stages_;
};

}  // namespace

Schedule add_send_recv(const Schedule& schedule) { return Inserter(schedule).run(); }

}  // namespace braid::pipeline
