#include "pipeline/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/costs/event_engine.h"
#include "ir/error.h"
#include "ir/error_numbers.h"
#include "pipeline/transfer_queues.h"
#include "pipeline/transfers.h"

namespace braid::pipeline {
namespace {

using analysis::EventEngine;
using analysis::Time;

bool is_transfer(ActionKind k) { return is_send(k) || is_recv(k); }

class Engine {
 public:
  Engine(const PipelineSchedule& schedule, const PipelineCosts& costs, QueuePolicy policy)
      : s_(schedule), costs_(costs), queues_(schedule, policy), engine_(2 * schedule.ranks()) {
    check();
    forward_end_.assign(stage_microbatches(s_), kNotYet);
    gradient_end_.assign(stage_microbatches(s_), kNotYet);
    ranks_.resize(s_.rows.size());
    unsharded_.assign(s_.rank_of_stage.ids(), Parameters::here);
    reduced_.assign(s_.rank_of_stage.ids(), kNotYet);
    result_.cells.resize(ranks_.size());
    result_.ranks.resize(ranks_.size());
    for (const int r : ranks_.ids()) result_.cells[r].reserve(s_.rows[r].size());
  }

  Simulation run() {
    for (;;) {
      settle();
      if (engine_.idle()) break;
      engine_.advance(
          Time::max(), [this](const Work& work, int sharers) { return factor(work, sharers); },
          [this](const Work& work) { end(work); });
    }
    finish();
    return std::move(result_);
  }

 private:
  enum class Parameters : std::uint8_t { here, coming };
  struct Rank {
    std::size_t position = 0;  // of the next cell
    bool computing = false;
    std::size_t running = 0;  // index into the rank's cells
    std::int64_t last_end = kNotYet;
    std::int64_t waited_alone = 0;  // when the WAITs since then would have ended without contention
    std::vector<std::size_t> side;  // the stream of parameters: indices into the rank's cells, in order
    std::size_t side_next = 0;
    bool side_busy = false;
  };
  // Work of a rank, or a transfer from one rank to another.
  struct Work {
    enum class Kind : std::uint8_t { computation, side, transfer } kind;
    int index;  // of the rank or the transfer
    std::array<std::int32_t, 2> resources;
    std::int64_t remaining;
  };
  static constexpr std::array<std::int32_t, 2> kNothingShared{-1, -1};

  // ---- checks

  void check() {
    ir::internal_check(costs_.stages.size() == s_.rank_of_stage.size(), "costs of {} stages for {}",
                       costs_.stages.size(), s_.rank_of_stage.size());
    double sum = 0;
    for (const int r : s_.rows.ids()) {
      each_cell(s_.rows[r], [&](std::size_t cell, std::size_t, std::span<const Action> actions) {
        for (const Action a : actions) {
          if (a.kind == ActionKind::idle) continue;
          ir::internal_check(
              a.stage >= 0 && a.stage < s_.stages() && s_.rank_of_stage[a.stage] == r &&
                  (!has_microbatch(a.kind) || (a.microbatch >= 0 && a.microbatch < s_.microbatches)),
              "rank {}, cell {}: {} is no action of this rank", r, cell, to_string(a));
          if (is_transfer(a.kind)) {
            const Action other = counterpart(a);
            ir::internal_check(other.stage >= 0 && other.stage < s_.stages(), "{} has no other end",
                               to_string(a));
            lowered_ = true;
          }
          sum += static_cast<double>(is_send(a.kind) ? costs_.transfer(a, r, peer_of(s_, a)).ps
                                                     : costs_.of(a).ps);
          // In compute-only rows, transfers are implied.
          const Action implied = is_compute(a.kind) ? send_after(s_, a) : Action{};
          if (implied.kind != ActionKind::idle)
            sum += static_cast<double>(costs_.transfer(implied, r, peer_of(s_, implied)).ps);
        }
      });
    }
    const double dearer =
        costs_.slowdown * (costs_.shared_links ? static_cast<double>(s_.rows.size()) : 1.0) / 1000;
    if (sum * dearer > 1e18) {
      ir::user_error(errors::kTimesTooLarge, {}, "the times of all actions add up to more than eleven days",
                     "give the costs in the units named by the keys");
    }
  }

  // ---- what begins now

  void settle() {
    for (bool again = true; again;) {
      again = false;
      for (const int r : ranks_.ids()) again |= take_cells(r);
      again |= queues_.settle(now(), [this](TransferId transfer) { begin_transfer(transfer); });
    }
  }

  // Takes as many cells of the row as possible now. Returns whether it took any.
  bool take_cells(int r) {
    Rank& rank = ranks_[r];
    const Row& row = s_.rows[r];
    bool moved = false;
    while (!rank.computing && rank.position < row.size()) {
      const std::size_t position = rank.position, size = cell_size(row, position);
      const std::span<const Action> actions = members(row, position);
      const ActionKind kind = row[position].kind;
      if (kind != ActionKind::idle) {
        if (!std::ranges::all_of(actions, [&](Action a) { return ready(a); })) break;
        result_.cells[r].push_back({position, {now()}, {now()}});
        if (is_compute(kind) || kind == ActionKind::overlap_f_b) {
          begin_computation(r, actions);
        } else if (kind == ActionKind::unshard || kind == ActionKind::reduce_grad) {
          if (kind == ActionKind::unshard) unsharded_[actions[0].stage] = Parameters::coming;
          rank.side.push_back(result_.cells[r].size() - 1);
          begin_side(r);
        } else if (is_wait_send(kind) || kind == ActionKind::wait_reduce_grad) {
          rank.waited_alone = std::max(rank.waited_alone, gone_alone(actions[0]));
        } else if (kind != ActionKind::reshard) {
          queues_.begin_batch();
          for (const Action a : actions) queues_.post(a, now());
        }
      }
      rank.position += size;
      moved = true;
    }
    return moved;
  }

  bool ready(Action a) const {
    const StageMicrobatch id = stage_microbatch(s_, a);
    switch (a.kind) {
      case ActionKind::forward:
        if (unsharded_[a.stage] == Parameters::coming) return false;
        return a.stage == 0 || (sent_between(s_, a.stage - 1)
                                    ? queues_.usable({ActionKind::send_forward, a.stage - 1, a.microbatch})
                                    : forward_end_[id - s_.microbatches] != kNotYet);
      case ActionKind::backward_input:
      case ActionKind::full_backward:
        if (unsharded_[a.stage] == Parameters::coming || forward_end_[id] == kNotYet) return false;
        return a.stage + 1 == s_.stages() ||
               (sent_between(s_, a.stage)
                    ? queues_.usable({ActionKind::send_backward, a.stage + 1, a.microbatch})
                    : gradient_end_[id + s_.microbatches] != kNotYet);
      case ActionKind::backward_weight:
        return gradient_end_[id] != kNotYet;
      case ActionKind::send_forward:
        return forward_end_[id] != kNotYet;
      case ActionKind::send_backward:
        return gradient_end_[id] != kNotYet;
      case ActionKind::wait_send_forward:
      case ActionKind::wait_send_backward:
        return queues_.left(send_of(a));
      case ActionKind::wait_reduce_grad:
        return reduced_[a.stage] != kNotYet;
      default:
        return true;
    }
  }
  void begin_computation(int r, std::span<const Action> actions) {
    Rank& rank = ranks_[r];
    Time sum, longest;
    for (const Action a : actions) {
      sum += costs_.of(a);
      longest = std::max(longest, costs_.of(a));
    }
    if (actions.size() > 1) sum = std::max(longest, analysis::stretched(sum, costs_.overlap));
    rank.computing = true;
    rank.running = result_.cells[r].size() - 1;
    engine_.begin({Work::Kind::computation, r, kNothingShared, sum.ps});
    account_for_gap(r, actions);
  }

  // Attributes the idle time of the stream until now to its causes.
  void account_for_gap(int r, std::span<const Action> actions) {
    ComputeStreamTimes& times = result_.ranks[r];
    if (ranks_[r].last_end == kNotYet) {
      times.skew = {now()};
      return;
    }
    const std::int64_t from = ranks_[r].last_end;
    std::int64_t earliest = std::max(from, ranks_[r].waited_alone);  // without contention
    ranks_[r].waited_alone = 0;
    bool parameters = false;
    for (const Action a : actions) {
      earliest = std::max(earliest, arrival_alone(a));
      parameters |= !last_unshard_end_.empty() && last_unshard_end_[a.stage] == now();
    }
    const std::int64_t dependency = parameters ? now() - from : std::min(now(), earliest) - from;
    times.dependency.ps += dependency;
    times.head_of_line.ps += now() - from - dependency;
  }
  std::int64_t arrival_alone(Action a) const {
    const StageMicrobatch id = stage_microbatch(s_, a);
    if (a.kind == ActionKind::forward && a.stage > 0) {
      const std::int64_t made = forward_end_[id - s_.microbatches];
      return made + alone({ActionKind::send_forward, a.stage - 1, a.microbatch});
    }
    if (gives_input_gradient(a.kind) && a.stage + 1 < s_.stages()) {
      const std::int64_t made = gradient_end_[id + s_.microbatches];
      return made + alone({ActionKind::send_backward, a.stage + 1, a.microbatch});
    }
    return 0;
  }
  std::int64_t alone(Action send) const {
    const std::int32_t from = s_.rank_of_stage[send.stage], to = s_.rank_of_stage[counterpart(send).stage];
    return from == to ? 0 : costs_.transfer(send, from, to).ps;
  }

  // When the awaited work of a WAIT that has ended would have ended without contention.
  std::int64_t gone_alone(Action wait) const {
    if (wait.kind == ActionKind::wait_reduce_grad) return reduced_[wait.stage];
    const TransferQueues::Transfer& t = queues_.of(send_of(wait));
    const std::int64_t posted = queues_.meets() ? std::max(t.sent, t.received) : t.sent;
    return posted + costs_.transfer(t.send, t.from, t.to).ps;
  }

  void begin_side(int r) {
    Rank& rank = ranks_[r];
    if (rank.side_busy || rank.side_next == rank.side.size()) return;
    CellTimes& cell = result_.cells[r][rank.side[rank.side_next]];
    cell.begin = cell.end = {now()};
    rank.side_busy = true;
    engine_.begin({Work::Kind::side, r, kNothingShared, costs_.of(s_.rows[r][cell.position]).ps});
  }

  void begin_transfer(TransferId transfer) {
    const TransferQueues::Transfer& t = queues_.transfers()[transfer];
    engine_.begin({Work::Kind::transfer,
                   transfer.index,
                   {leaving(t.from), entering(t.to)},
                   costs_.transfer(t.send, t.from, t.to).ps});
  }

  // ---- what ends

  std::int64_t now() const { return engine_.now().ps; }

  // The resources of a rank: both directions of its link.
  static std::int32_t leaving(std::int32_t rank) { return 2 * rank; }
  static std::int32_t entering(std::int32_t rank) { return 2 * rank + 1; }

  std::int64_t factor(const Work& work, int sharers) const {
    switch (work.kind) {
      case Work::Kind::computation:
        return engine_.users(leaving(work.index)) + engine_.users(entering(work.index)) > 0 ? costs_.slowdown
                                                                                            : 1000;
      case Work::Kind::transfer:
        return costs_.shared_links ? std::int64_t{1000} * sharers : 1000;
      case Work::Kind::side:
        break;
    }
    return 1000;
  }

  void end(const Work& work) {
    last_ = now();
    switch (work.kind) {
      case Work::Kind::computation:
        return end_computation(work.index);
      case Work::Kind::side:
        return end_side(work.index);
      case Work::Kind::transfer:
        return queues_.end({work.index}, now());
    }
  }

  void end_computation(int r) {
    Rank& rank = ranks_[r];
    CellTimes& cell = result_.cells[r][rank.running];
    cell.end = {now()};
    rank.computing = false;
    rank.last_end = now();
    result_.ranks[r].busy += cell.end - cell.begin;
    for (const Action a : members(s_.rows[r], cell.position)) {
      if (a.kind == ActionKind::forward) forward_end_[stage_microbatch(s_, a)] = now();
      if (gives_input_gradient(a.kind)) gradient_end_[stage_microbatch(s_, a)] = now();
      const Action send = lowered_ ? Action{} : send_after(s_, a);
      if (send.kind == ActionKind::idle) continue;
      begin_transfer(queues_.send_by_itself(send, now()));
    }
  }

  void end_side(int r) {
    Rank& rank = ranks_[r];
    CellTimes& cell = result_.cells[r][rank.side[rank.side_next++]];
    cell.end = {now()};
    rank.side_busy = false;
    const Action a = s_.rows[r][cell.position];
    if (a.kind == ActionKind::unshard) {
      unsharded_[a.stage] = Parameters::here;
      last_unshard_end_.resize(s_.rank_of_stage.size(), kNotYet);
      last_unshard_end_[a.stage] = now();
    } else {
      reduced_[a.stage] = now();
    }
    begin_side(r);
  }

  // ---- results

  void finish() {
    std::string stuck;
    for (const int r : ranks_.ids()) {
      const Row& row = s_.rows[r];
      if (ranks_[r].position >= row.size()) continue;
      std::string cell;
      for (const Action a : members(row, ranks_[r].position)) {
        if (!ready(a)) cell += (cell.empty() ? "" : ", ") + to_string(a);
      }
      stuck += fmt::format("\n  rank {} waits at entry {}: {}", r, ranks_[r].position, cell);
    }
    for (const TransferQueues::Transfer& t : queues_.transfers()) {
      if (t.delivered || !lowered_) continue;
      if (t.end == kNotYet || t.received != kNotYet || !stuck.empty()) {
        const char* state = t.sent == kNotYet       ? "is received, but never sent"
                            : t.received == kNotYet ? "is sent, but never received"
                                                    : "is queued behind others";
        stuck += fmt::format("\n  {} {}", to_string(t.send), state);
      }
    }
    if (!stuck.empty()) {
      ir::user_error(errors::kSimulationStuck, {}, "the ranks wait for each other:" + stuck,
                     "'braid pipeline check' shows the cycle");
    }
    result_.makespan = {last_};
    for (const int r : ranks_.ids()) {
      ComputeStreamTimes& times = result_.ranks[r];
      if (ranks_[r].last_end == kNotYet) {
        times.skew = {last_};
      } else {
        times.tail = {last_ - ranks_[r].last_end};
      }
    }
    result_.transfers.reserve(queues_.transfers().size());
    for (const TransferQueues::Transfer& t : queues_.transfers())
      result_.transfers.push_back({t.send, t.from, t.to, {t.sent}, {t.received}, {t.begin}, {t.end}});
    std::ranges::stable_sort(result_.transfers, {}, &TransferTimes::begin);
  }

  const PipelineSchedule& s_;
  const PipelineCosts& costs_;
  TransferQueues queues_;
  EventEngine<Work> engine_;
  bool lowered_ = false;

  std::int64_t last_ = 0;  // when the last work ended
  PerRank<Rank> ranks_;
  IdVector<StageMicrobatch, std::int64_t> forward_end_, gradient_end_;
  PerStage<Parameters> unsharded_;
  PerStage<std::int64_t> reduced_;           // end of REDUCE_GRAD
  PerStage<std::int64_t> last_unshard_end_;  // empty if there was none
  Simulation result_;
};

}  // namespace

Time Simulation::idle() const {
  Time sum;
  for (const ComputeStreamTimes& r : ranks) sum += r.idle();
  return sum;
}

Simulation simulate(const PipelineSchedule& schedule, const PipelineCosts& costs, QueuePolicy policy) {
  return Engine(schedule, costs, policy).run();
}

}  // namespace braid::pipeline
