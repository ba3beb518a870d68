#include "pipeline/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "pipeline/text.h"
#include "pipeline/transfers.h"

namespace braid::pipeline {
namespace {

using enum ActionKind;

bool has_actions(const PipelineSchedule& s) {
  return std::ranges::any_of(s.rows, [](const Row& row) {
    return std::ranges::any_of(row, [](Action a) { return a.kind != idle; });
  });
}

void check_placement(const PipelineSchedule& s) {
  if (s.microbatches < 0)
    ir::user_error(errors::kTooManyActions, {},
                   fmt::format("the number of micro-batches is {}", s.microbatches));
  if (std::int64_t{s.stages()} * s.microbatches >= kMostStageMicrobatches)
    ir::user_error(errors::kTooManyActions, {},
                   fmt::format("{} stages with {} micro-batches are too many", s.stages(), s.microbatches),
                   fmt::format("stages * micro-batches must be below {}", kMostStageMicrobatches));
  PerRank<bool> owns(s.rows.ids());
  for (const int stage : s.rank_of_stage.ids()) {
    const int rank = s.rank_of_stage[stage];
    if (rank < 0 || rank >= s.ranks())
      ir::user_error(
          errors::kBadPlacement, {},
          fmt::format("stage {} is placed on rank {}, but there are {} ranks", stage, rank, s.ranks()));
    owns[rank] = true;
  }
  if (s.ranks() > s.stages() && (s.stages() > 0 || has_actions(s)))
    ir::user_error(errors::kBadPlacement, {},
                   fmt::format("{} ranks are too many for {} stages", s.ranks(), s.stages()),
                   "every rank needs a stage: use fewer ranks or split the model into more stages");
  for (int rank = 0; rank < s.ranks() && s.stages() > 0; ++rank)
    if (!owns[rank]) ir::user_error(errors::kBadPlacement, {}, fmt::format("rank {} owns no stage", rank));
}

class FormCheck {
 public:
  explicit FormCheck(const PipelineSchedule& s) : s_(s) {}

  void run() {
    check_placement(s_);
    for (rank_ = 0; rank_ < s_.ranks(); ++rank_) {
      const Row& row = s_.rows[rank_];
      for (std::size_t p = 0; p < row.size();) {
        if (row[p].kind > batch_p2p) fail(p, "is not an action");
        if (is_container(row[p].kind)) {
          check_container(row, p);
        } else if (row[p].kind != idle) {
          check_action(p, row[p]);
        }
        p += cell_size(row, p);
      }
    }
  }

 private:
  void check_container(const Row& row, std::size_t p) const {
    const Action header = row[p];
    const char* name = header.kind == overlap_f_b ? "OVERLAP_F_B" : "BATCH_P2P";
    if (header.microbatch < 1 || static_cast<std::size_t>(header.microbatch) > row.size() - p - 1)
      ir::user_error(
          errors::kBadAction, {},
          fmt::format("{}: {} cannot have {} members", location_text(s_, rank_, p), name, header.microbatch));
    for (const Action a : members(row, p)) {
      const bool fits = header.kind == overlap_f_b ? is_compute(a.kind) : is_send(a.kind) || is_recv(a.kind);
      if (!fits)
        ir::user_error(
            errors::kBadAction, {},
            fmt::format("{}: {} holds '{}'", location_text(s_, rank_, p), name, to_string(a)),
            header.kind == overlap_f_b ? "its members are F, I, W and B" : "its members are SEND and RECV");
      check_action(p, a);
    }
  }

  void check_action(std::size_t p, Action a) const {
    if (a.stage < 0 || a.stage >= s_.stages())
      fail(p, a, errors::kBadAction, fmt::format("there are {} stages", s_.stages()));
    if (has_microbatch(a.kind) ? a.microbatch < 0 || a.microbatch >= s_.microbatches : a.microbatch != -1)
      fail(p, a, errors::kBadAction, fmt::format("there are {} micro-batches", s_.microbatches));
    const int owner = s_.rank_of_stage[a.stage];
    if (owner != rank_)
      fail(p, a, errors::kWrongRank, fmt::format("stage {} belongs to rank {}", a.stage, owner));
    if (!is_send(a.kind) && !is_recv(a.kind) && !is_wait_send(a.kind)) return;
    const ActionKind k = is_wait_send(a.kind) ? send_of(a).kind : a.kind;
    const bool up = k == send_forward || k == recv_backward;  // between a.stage and the next one
    const int lower = up ? a.stage : a.stage - 1;
    if (sent_between(s_, lower)) return;
    fail(p, a, errors::kBadAction,
         handed_over_between(s_, lower)
             ? fmt::format("stages {} and {} are on the same rank, so nothing is sent", lower, lower + 1)
             : fmt::format("there is no stage {}", up ? lower + 1 : lower));
  }

  [[noreturn]] void fail(std::size_t p, const char* what) const {
    ir::user_error(errors::kBadAction, {}, fmt::format("{}: {}", location_text(s_, rank_, p), what));
  }
  [[noreturn]] void fail(std::size_t p, Action a, int code, const std::string& what) const {
    ir::user_error(code, {}, fmt::format("{}: {}: {}", location_text(s_, rank_, p), to_string(a), what));
  }

  const PipelineSchedule& s_;
  int rank_ = 0;
};

class Validator {
 public:
  Validator(const PipelineSchedule& s, const ValidateOptions& options) : s_(s), options_(options) {}

  void run() {
    FormCheck(s_).run();
    check_forwards_suffice();
    done_.assign(stage_microbatches(s_), 0);
    shard_.assign(s_.rank_of_stage.ids(), Shard::unknown);
    weights_.assign(s_.rank_of_stage.ids(), 0);
    reduced_.assign(s_.rank_of_stage.ids(), Reduction::none);
    computed_.assign(s_.rank_of_stage.ids(), false);
    for (rank_ = 0; rank_ < s_.ranks(); ++rank_) check_row();
    check_complete();
  }

 private:
  enum class Shard : char { unknown, gathered, freed };
  enum class Reduction : char { none, begun, awaited };

  // Refuses a short file with one large micro-batch number before gigabytes of state are allocated for it.
  void check_forwards_suffice() const {
    std::size_t forwards = 0;
    for (const Row& row : s_.rows)
      for (const Action a : row) forwards += a.kind == forward;
    if (forwards >= stage_microbatches(s_).size()) return;
    std::vector<StageMicrobatch> present;
    present.reserve(forwards);
    for (const Row& row : s_.rows)
      for (const Action a : row)
        if (a.kind == forward) present.push_back(stage_microbatch(s_, a));
    std::ranges::sort(present);
    StageMicrobatch expected{0};
    for (const StageMicrobatch id : present) {
      if (id > expected) break;
      if (id == expected) ++expected;
    }
    fail_missing({forward, expected.index / s_.microbatches, expected.index % s_.microbatches});
  }

  void check_row() {
    const Row& row = s_.rows[rank_];
    for (std::size_t p = 0; p < row.size(); p += cell_size(row, p)) {
      position_ = p;
      if (row[p].kind == idle) continue;
      if (!is_container(row[p].kind)) {
        check_order(row[p]);
        record(row[p]);
        continue;
      }
      for (const Action a : members(row, p)) check_order(a);  // before any of them is recorded
      for (const Action a : members(row, p)) record(a);
    }
    for (const Action a : gathered_)
      if (shard_[a.stage] == Shard::gathered) fail_missing({reshard, a.stage, -1});
    gathered_.clear();
  }

  KindSet done(int stage, int microbatch) const {
    return done_[stage_microbatch(s_, {forward, stage, microbatch})];
  }

  void need(bool have, Action a, Action needed) const {
    if (!have) fail(a, errors::kWrongOrder, fmt::format("{} must come before it", to_string(needed)));
  }

  void check_order(Action a) {
    if (!options_.transfers && (is_send(a.kind) || is_recv(a.kind) || is_wait_send(a.kind)))
      fail(a, errors::kBadAction, "the rows must not contain transfers");
    const int s = a.stage;
    const int m = a.microbatch;
    switch (a.kind) {
      case forward:
        if (handed_over_between(s_, s - 1))
          need((done(s - 1, m) & bit(forward)) != 0, a, {forward, s - 1, m});
        break;
      case backward_input:
      case full_backward:
        need((done(s, m) & bit(forward)) != 0, a, {forward, s, m});
        if (handed_over_between(s_, s)) need((done(s + 1, m) & kInputGradient) != 0, a, {a.kind, s + 1, m});
        break;
      case backward_weight:
        need((done(s, m) & bit(backward_input)) != 0, a, {backward_input, s, m});
        break;
      case send_forward:
        need((done(s, m) & bit(forward)) != 0, a, {forward, s, m});
        break;
      case send_backward:
        need((done(s, m) & kInputGradient) != 0, a, {backward_input, s, m});
        break;
      case wait_send_forward:
      case wait_send_backward:
        need((done(s, m) & bit(send_of(a).kind)) != 0, a, send_of(a));
        break;
      case wait_reduce_grad:
        need(reduced_[s] != Reduction::none, a, {reduce_grad, s, -1});
        break;
      default:
        break;
    }
    if (options_.transfers)
      if (const Action r = recv_before(s_, a); r.kind != idle) need((done(s, m) & bit(r.kind)) != 0, a, r);
    if (is_compute(a.kind) && shard_[s] == Shard::freed)
      fail(a, errors::kWrongOrder, fmt::format("the parameters of stage {} were freed before it", s));
  }

  void record(Action a) {
    const int stage = a.stage;
    switch (a.kind) {
      case unshard:
        if (shard_[stage] == Shard::gathered)
          fail(a, errors::kActionTwice, "the parameters are already gathered");
        if (shard_[stage] == Shard::unknown && computed_[stage])
          fail(a, errors::kWrongOrder, fmt::format("stage {} computes before it", a.stage));
        shard_[stage] = Shard::gathered;
        gathered_.push_back(a);
        return;
      case reshard:
        if (shard_[stage] != Shard::gathered)
          fail(a, errors::kWrongOrder, "there is nothing to free: no UNSHARD before it");
        shard_[stage] = Shard::freed;
        return;
      case reduce_grad:
        if (reduced_[stage] != Reduction::none)
          fail(a, errors::kActionTwice, "the gradients were already reduced");
        if (weights_[stage] < s_.microbatches)
          fail(a, errors::kWrongOrder,
               fmt::format("only {} of {} weight gradients are computed", weights_[stage], s_.microbatches));
        reduced_[stage] = Reduction::begun;
        return;
      case wait_reduce_grad:
        if (reduced_[stage] == Reduction::awaited) fail(a, errors::kActionTwice, "it occurs twice");
        reduced_[stage] = Reduction::awaited;
        return;
      case wait_send_forward:
      case wait_send_backward: {
        if (waited_.empty()) waited_.assign(stage_microbatches(s_), 0);
        KindSet& waited = waited_[stage_microbatch(s_, a)];
        if ((waited & bit(send_of(a).kind)) != 0) fail(a, errors::kActionTwice, "it occurs twice");
        waited |= bit(send_of(a).kind);
        return;
      }
      default:
        break;
    }
    KindSet& set = done_[stage_microbatch(s_, a)];
    KindSet excluded = bit(a.kind);
    if (a.kind == full_backward) excluded |= bit(backward_input) | bit(backward_weight);
    if (a.kind == backward_input || a.kind == backward_weight) excluded |= bit(full_backward);
    if ((set & excluded) != 0) fail(a, errors::kActionTwice, "it occurs twice");
    set |= bit(a.kind);
    if (!is_compute(a.kind)) return;
    computed_[stage] = true;
    backward_ = backward_ || is_backward(a.kind);
    if (gives_weight_gradient(a.kind)) {
      ++weights_[stage];
      if (reduced_[stage] != Reduction::none)
        fail(a, errors::kWrongOrder, "it comes after the REDUCE_GRAD of its stage");
    }
  }

  void check_complete() const {
    using Phases = ValidateOptions::Phases;
    if (options_.phases == Phases::forward_only && backward_)
      ir::user_error(errors::kBadAction, {}, "a forward-only schedule has backward actions");
    const bool training =
        options_.phases == Phases::training || (options_.phases == Phases::either && backward_);
    for (int s = 0; s < s_.stages(); ++s) {
      KindSet required = bit(forward);
      if (options_.transfers) {
        if (sent_between(s_, s)) required |= bit(send_forward) | (training ? bit(recv_backward) : 0);
        if (sent_between(s_, s - 1)) required |= bit(recv_forward) | (training ? bit(send_backward) : 0);
      }
      for (int m = 0; m < s_.microbatches; ++m) {
        const KindSet set = done(s, m);
        if ((set & required) == required && (!training || (set & bit(full_backward)) != 0 ||
                                             (set & bit(backward_weight)) != 0))  // W follows I (check_order)
          continue;
        for (const ActionKind k : {forward, recv_forward, send_forward, recv_backward, send_backward})
          if ((required & bit(k)) != 0 && (set & bit(k)) == 0) fail_missing({k, s, m});
        fail_missing({(set & bit(backward_input)) != 0 ? backward_weight : full_backward, s, m});
      }
    }
  }

  [[noreturn]] void fail(Action a, int code, const std::string& what) const {
    ir::user_error(code, {},
                   fmt::format("{}: {}: {}", location_text(s_, rank_, position_), to_string(a), what));
  }
  [[noreturn]] void fail_missing(Action a) const {
    const int rank = s_.rank_of_stage[a.stage];
    ir::user_error(errors::kActionMissing, {},
                   fmt::format("rank {}, {} cells: {} is missing", rank, cells(rank), to_string(a)));
  }
  std::size_t cells(int rank) const {
    std::size_t n = 0;
    each_cell(s_.rows[rank], [&](std::size_t, std::size_t, auto) { ++n; });
    return n;
  }

  const PipelineSchedule& s_;
  const ValidateOptions& options_;
  IdVector<StageMicrobatch, KindSet> done_;
  IdVector<StageMicrobatch, KindSet> waited_;  // the SENDs that have a WAIT_SEND; empty before the first one
  PerStage<Shard> shard_;
  PerStage<int> weights_;  // the number of weight gradients computed
  PerStage<Reduction> reduced_;
  PerStage<bool> computed_;
  std::vector<Action> gathered_;  // the UNSHARDs of the row
  bool backward_ = false;
  int rank_ = 0;
  std::size_t position_ = 0;
};

}  // namespace

void validate(const PipelineSchedule& schedule, const ValidateOptions& options) {
  Validator(schedule, options).run();
}

std::string location_text(const PipelineSchedule& schedule, int rank, std::size_t position) {
  const Row& row = schedule.rows[rank];
  std::size_t cell = 0;
  for (std::size_t p = 0; p < position && p < row.size(); p += cell_size(row, p)) ++cell;
  return fmt::format("rank {}, cell {}", rank, cell);
}

std::string cell_text(const Row& row, std::size_t position) {
  std::string text;
  append_cell(text, row, position);
  return text;
}

}  // namespace braid::pipeline
