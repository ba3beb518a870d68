#include "passes/pipeline/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "ir/error.h"
#include "passes/pipeline/channel_layout.h"
#include "passes/pipeline/simulation_errors.h"
#include "passes/pipeline/transfers.h"

namespace braid::pipeline {
namespace {

using passes::Permille;
using passes::Time;

constexpr std::int64_t kNotYet = -1;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

bool is_transfer(ActionKind k) { return is_send(k) || is_recv(k); }
bool gives_gradient(ActionKind k) { return (bit(k) & kInputGradient) != 0; }

class Engine {
 public:
  Engine(const Schedule& schedule, const PipelineCosts& costs, ChannelPolicy policy)
      : s_(schedule), costs_(costs), policy_(policy), layout_(schedule, policy.kind) {
    check();
    const std::size_t n = dense_size(s_);
    forward_end_.assign(n, kNotYet);
    gradient_end_.assign(n, kNotYet);
    transfer_of_.assign(2 * n, -1);
    ranks_.resize(at(s_.ranks()));
    queues_.resize(at(layout_.queues()));
    unsharded_.assign(s_.rank_of_stage.size(), Parameters::here);
    outstanding_.assign(at(layout_.connections()), 0);
    leaving_.assign(ranks_.size(), 0);
    entering_.assign(ranks_.size(), 0);
    result_.cells.resize(ranks_.size());
    result_.ranks.resize(ranks_.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) result_.cells[r].reserve(s_.rows[r].size());
  }

  Simulation run() {
    for (;;) {
      settle();
      const std::int64_t next = next_end();
      if (next == std::numeric_limits<std::int64_t>::max()) break;
      advance(next);
    }
    finish();
    return std::move(result_);
  }

 private:
  enum class Parameters : std::uint8_t { here, coming };
  struct Rank {
    std::size_t position = 0;  // of the next cell
    bool computing = false;
    std::int64_t remaining = 0;  // of the computation, or, beside it, of the stream of parameters
    std::int64_t side_remaining = 0;
    bool side_busy = false;
    std::vector<std::size_t> side;  // indices into the rank's cells, in order
    std::size_t side_next = 0;
    std::size_t running = 0;  // index into the rank's cells
    std::int64_t last_end = kNotYet;
    int transfers = 0;  // in flight, to or from this rank
  };
  struct Transfer {
    Action send;
    std::int32_t from = 0, to = 0, send_queue = -1, recv_queue = -1, connection = -1;
    std::int64_t sent = kNotYet, received = kNotYet, begin = kNotYet, end = kNotYet;
    std::int64_t remaining = 0;
    int send_batch = 0, recv_batch = 0;
    bool delivered = false;  // the RECV is complete
    bool usable = false;     // and so is all that was posted with it into its queue
  };
  // One end of a channel: what was posted and is not complete, in order. What has the batch of the first one
  // is at the head.
  struct Queue {
    struct Entry {
      int transfer;
      bool send;
    };
    std::vector<Entry> entries;
    std::size_t first = 0;
    bool touched = false;
  };

  // ---- before it begins

  void check() {
    ir::internal_check(costs_.stages.size() == s_.rank_of_stage.size(), "costs of {} stages for {}",
                       costs_.stages.size(), s_.rank_of_stage.size());
    double sum = 0;
    for (std::size_t r = 0; r < s_.rows.size(); ++r) {
      each_cell(s_.rows[r], [&](std::size_t cell, std::size_t, std::span<const Action> actions) {
        for (const Action a : actions) {
          if (a.kind == ActionKind::idle) continue;
          ir::internal_check(
              a.stage >= 0 && a.stage < s_.stages() &&
                  s_.rank_of_stage[at(a.stage)] == static_cast<std::int32_t>(r) &&
                  (!has_microbatch(a.kind) || (a.microbatch >= 0 && a.microbatch < s_.microbatches)),
              "rank {}, cell {}: {} is no action of this rank", r, cell, to_string(a));
          if (is_transfer(a.kind)) {
            const Action other = counterpart(a);
            ir::internal_check(other.stage >= 0 && other.stage < s_.stages(), "{} has no other end",
                               to_string(a));
            lowered_ = true;
          }
          const auto rank = static_cast<std::int32_t>(r);
          sum += static_cast<double>(is_send(a.kind) ? costs_.transfer(a, rank, peer_of(s_, a)).ps
                                                     : costs_.of(a).ps);
          // In compute-only rows the neighbours' values arrive by themselves.
          const Action implied = is_compute(a.kind) ? send_after(s_, a) : Action{};
          if (implied.kind != ActionKind::idle)
            sum += static_cast<double>(costs_.transfer(implied, rank, peer_of(s_, implied)).ps);
        }
      });
    }
    const double dearer =
        costs_.slowdown * (costs_.shared_links ? static_cast<double>(s_.rows.size()) : 1.0) / 1000;
    if (sum * dearer > 1e18) {
      ir::user_error(kTimesTooLarge, {}, "the times of all actions add up to more than eleven days",
                     "give the costs in the units that the keys name");
    }
  }

  // ---- one moment

  void settle() {
    for (bool again = true; again;) {
      again = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) again |= take_cells(r);
      while (!touched_.empty()) {
        const int q = touched_.back();
        touched_.pop_back();
        queues_[at(q)].touched = false;
        again |= look_at_head(q);
      }
    }
  }

  // Goes on in the row as far as possible now.
  bool take_cells(std::size_t r) {
    Rank& rank = ranks_[r];
    const Row& row = s_.rows[r];
    bool moved = false;
    while (!rank.computing && rank.position < row.size()) {
      const std::size_t position = rank.position, size = cell_size(row, position);
      const std::span<const Action> actions = members(row, position);
      const ActionKind kind = row[position].kind;
      if (kind != ActionKind::idle) {
        if (!std::ranges::all_of(actions, [&](Action a) { return ready(a); })) break;
        result_.cells[r].push_back({static_cast<std::uint32_t>(position), {now_}, {now_}});
        if (is_compute(kind) || kind == ActionKind::overlap_f_b) {
          begin_computation(r, actions);
        } else if (kind == ActionKind::unshard || kind == ActionKind::reduce_grad) {
          if (kind == ActionKind::unshard) unsharded_[at(actions[0].stage)] = Parameters::coming;
          rank.side.push_back(result_.cells[r].size() - 1);
          begin_side(r);
        } else if (kind != ActionKind::reshard) {
          ++batch_;
          for (const Action a : actions) post(a);
        }
      }
      rank.position += size;
      moved = true;
    }
    return moved;
  }

  bool ready(Action a) const {
    const std::size_t id = dense_id(s_, a);
    switch (a.kind) {
      case ActionKind::forward:
        if (unsharded_[at(a.stage)] == Parameters::coming) return false;
        return a.stage == 0 ||
               (sent_between(s_, a.stage - 1) ? usable({ActionKind::send_forward, a.stage - 1, a.microbatch})
                                              : forward_end_[id - at(s_.microbatches)] != kNotYet);
      case ActionKind::backward_input:
      case ActionKind::full_backward:
        if (unsharded_[at(a.stage)] == Parameters::coming || forward_end_[id] == kNotYet) return false;
        return a.stage + 1 == s_.stages() ||
               (sent_between(s_, a.stage) ? usable({ActionKind::send_backward, a.stage + 1, a.microbatch})
                                          : gradient_end_[id + at(s_.microbatches)] != kNotYet);
      case ActionKind::backward_weight:
        return gradient_end_[id] != kNotYet;
      case ActionKind::send_forward:
        return forward_end_[id] != kNotYet;
      case ActionKind::send_backward:
        return gradient_end_[id] != kNotYet;
      default:
        return true;
    }
  }
  bool usable(Action send) const {
    const int t = transfer_of_[index_of(send)];
    return t >= 0 && transfers_[at(t)].usable;
  }

  void begin_computation(std::size_t r, std::span<const Action> actions) {
    Rank& rank = ranks_[r];
    Time sum, longest;
    for (const Action a : actions) {
      sum += costs_.of(a);
      longest = std::max(longest, costs_.of(a));
    }
    if (actions.size() > 1) sum = std::max(longest, passes::stretched(sum, costs_.overlap));
    rank.computing = true;
    rank.remaining = sum.ps;
    rank.running = result_.cells[r].size() - 1;
    account_for_gap(r, actions);
  }

  // Why the stream stood still until now.
  void account_for_gap(std::size_t r, std::span<const Action> actions) {
    RankTimes& times = result_.ranks[r];
    if (ranks_[r].last_end == kNotYet) {
      times.skew = {now_};
      return;
    }
    const std::int64_t from = ranks_[r].last_end;
    std::int64_t earliest = from;  // with links that nobody else uses
    bool parameters = false;
    for (const Action a : actions) {
      earliest = std::max(earliest, arrival_alone(a));
      parameters |= last_unshard_end_.size() > at(a.stage) && last_unshard_end_[at(a.stage)] == now_;
    }
    const std::int64_t dependency = parameters ? now_ - from : std::min(now_, earliest) - from;
    times.dependency.ps += dependency;
    times.head_of_line.ps += now_ - from - dependency;
  }
  std::int64_t arrival_alone(Action a) const {
    const std::size_t id = dense_id(s_, a);
    if (a.kind == ActionKind::forward && a.stage > 0) {
      const std::int64_t made = forward_end_[id - at(s_.microbatches)];
      return made + alone({ActionKind::send_forward, a.stage - 1, a.microbatch});
    }
    if (gives_gradient(a.kind) && a.stage + 1 < s_.stages()) {
      const std::int64_t made = gradient_end_[id + at(s_.microbatches)];
      return made + alone({ActionKind::send_backward, a.stage + 1, a.microbatch});
    }
    return 0;
  }
  std::int64_t alone(Action send) const {
    const std::int32_t from = s_.rank_of_stage[at(send.stage)],
                       to = s_.rank_of_stage[at(counterpart(send).stage)];
    return from == to ? 0 : costs_.transfer(send, from, to).ps;
  }

  void begin_side(std::size_t r) {
    Rank& rank = ranks_[r];
    if (rank.side_busy || rank.side_next == rank.side.size()) return;
    CellTimes& cell = result_.cells[r][rank.side[rank.side_next]];
    cell.begin = cell.end = {now_};
    rank.side_busy = true;
    rank.side_remaining = costs_.of(s_.rows[r][cell.position]).ps;
  }

  // ---- transfers

  std::size_t index_of(Action send) const {
    return 2 * dense_id(s_, send) + (send.kind == ActionKind::send_backward ? 1 : 0);
  }

  Transfer& transfer(Action send) {
    int& index = transfer_of_[index_of(send)];
    if (index < 0) {
      index = static_cast<int>(transfers_.size());
      Transfer t;
      t.send = send;
      t.from = s_.rank_of_stage[at(send.stage)];
      t.to = s_.rank_of_stage[at(counterpart(send).stage)];
      t.remaining = costs_.transfer(send, t.from, t.to).ps;
      transfers_.push_back(t);
    }
    return transfers_[at(index)];
  }

  void post(Action a) {
    const bool send = is_send(a.kind);
    Transfer& t = transfer(send ? a : counterpart(a));
    (send ? t.sent : t.received) = now_;
    (send ? t.send_batch : t.recv_batch) = batch_;
    (send ? t.send_queue : t.recv_queue) = layout_.queue_of(a);
    t.connection = layout_.connection_of(a);
    const int q = layout_.queue_of(a);
    queues_[at(q)].entries.push_back({transfer_of_[index_of(t.send)], send});
    touch(q);
  }

  void touch(int q) {
    if (q < 0 || std::exchange(queues_[at(q)].touched, true)) return;
    touched_.push_back(q);
  }

  int batch_of(const Queue::Entry& e) const {
    const Transfer& t = transfers_[at(e.transfer)];
    return e.send ? t.send_batch : t.recv_batch;
  }
  bool complete(const Queue::Entry& e) const {
    const Transfer& t = transfers_[at(e.transfer)];
    return e.send ? t.end != kNotYet : t.delivered;
  }
  bool at_head(int q, int batch) const {
    const Queue& queue = queues_[at(q)];
    return queue.first < queue.entries.size() && batch_of(queue.entries[queue.first]) == batch;
  }

  bool leave_complete_batches(Queue& queue) {
    const std::size_t before = queue.first;
    while (queue.first < queue.entries.size()) {
      std::size_t end = queue.first;
      bool all = true;
      for (;
           end < queue.entries.size() && batch_of(queue.entries[end]) == batch_of(queue.entries[queue.first]);
           ++end)
        all &= complete(queue.entries[end]);
      if (!all) break;
      for (; queue.first < end; ++queue.first) {
        const Queue::Entry& e = queue.entries[queue.first];
        if (!e.send) transfers_[at(e.transfer)].usable = true;
      }
    }
    return queue.first != before;
  }

  // Begins, or delivers, what is at the head of a queue.
  bool look_at_head(int q) {
    Queue& queue = queues_[at(q)];
    bool moved = leave_complete_batches(queue);
    for (std::size_t k = queue.first; k < queue.entries.size(); ++k) {
      const Queue::Entry e = queue.entries[k];
      if (batch_of(e) != batch_of(queue.entries[queue.first])) break;
      Transfer& t = transfers_[at(e.transfer)];
      if (t.begin == kNotYet && t.sent != kNotYet && at_head(t.send_queue, t.send_batch) && may_begin(t)) {
        begin_transfer(e.transfer);
        moved = true;
      }
      if (t.end != kNotYet && !t.delivered && t.received != kNotYet && at_head(t.recv_queue, t.recv_batch)) {
        deliver(t);
        moved = true;
      }
    }
    return moved;
  }

  bool may_begin(const Transfer& t) const {
    if (policy_.buffered > 0) return outstanding_[at(t.connection)] < policy_.buffered;
    return t.received != kNotYet && at_head(t.recv_queue, t.recv_batch);
  }

  void begin_transfer(int index) {
    Transfer& t = transfers_[at(index)];
    t.begin = now_;
    if (t.connection >= 0) ++outstanding_[at(t.connection)];
    ++leaving_[at(t.from)];
    ++entering_[at(t.to)];
    ++ranks_[at(t.from)].transfers;
    ++ranks_[at(t.to)].transfers;
    flying_.push_back(index);
  }

  void end_transfer(Transfer& t) {
    t.end = now_;
    --leaving_[at(t.from)];
    --entering_[at(t.to)];
    --ranks_[at(t.from)].transfers;
    --ranks_[at(t.to)].transfers;
    last_ = now_;
    touch(t.send_queue);
    touch(t.recv_queue);
    if (!lowered_) t.delivered = t.usable = true;
  }

  void deliver(Transfer& t) {
    t.delivered = true;
    --outstanding_[at(t.connection)];
    touch(t.recv_queue);
    // A sender may stand at its head because too many messages were on their way.
    for (int q : senders_of(t.connection)) touch(q);
  }
  // Queues through which a connection's SENDs go.
  std::vector<int>& senders_of(int connection) {
    if (senders_.empty()) {
      senders_.resize(at(layout_.connections()));
      for (int stage = 0; stage < s_.stages(); ++stage) {
        for (const ActionKind kind : {ActionKind::send_forward, ActionKind::send_backward}) {
          const Action send{kind, stage, 0};
          const int other = counterpart(send).stage;
          if (other < 0 || other >= s_.stages() || !sent_between(s_, std::min(stage, other))) continue;
          std::vector<int>& list = senders_[at(layout_.connection_of(send))];
          if (std::ranges::find(list, layout_.queue_of(send)) == list.end())
            list.push_back(layout_.queue_of(send));
        }
      }
    }
    return senders_[at(connection)];
  }

  // ---- time goes by

  Permille rate(const Rank& r) const { return r.transfers > 0 ? costs_.slowdown : 1000; }
  Permille rate(const Transfer& t) const {
    return costs_.shared_links ? 1000 * std::max(leaving_[at(t.from)], entering_[at(t.to)]) : 1000;
  }

  std::int64_t next_end() const {
    std::int64_t next = std::numeric_limits<std::int64_t>::max();
    for (const Rank& r : ranks_) {
      if (r.computing) next = std::min(next, passes::stretched({r.remaining}, rate(r)).ps);
      if (r.side_busy) next = std::min(next, r.side_remaining);
    }
    for (const int f : flying_) {
      const Transfer& t = transfers_[at(f)];
      next = std::min(next, passes::stretched({t.remaining}, rate(t)).ps);
    }
    return next;
  }

  void advance(std::int64_t ps) {
    const auto lessen = [&](std::int64_t& remaining, Permille rate) {
      remaining -= std::min(remaining, passes::done_in({ps}, rate).ps);
      return remaining == 0;
    };
    // Rates are those of the time that goes by: nothing ends before all have gone on.
    now_ += ps;
    for (Rank& r : ranks_) {
      if (r.computing) lessen(r.remaining, rate(r));
      if (r.side_busy) lessen(r.side_remaining, 1000);
    }
    ended_.clear();
    std::size_t kept = 0;
    for (const int f : flying_) {
      Transfer& t = transfers_[at(f)];
      if (lessen(t.remaining, rate(t))) {
        ended_.push_back(f);
      } else {
        flying_[kept++] = f;
      }
    }
    flying_.resize(kept);
    for (const int f : ended_) end_transfer(transfers_[at(f)]);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].computing && ranks_[r].remaining == 0) end_computation(r);
      if (ranks_[r].side_busy && ranks_[r].side_remaining == 0) end_side(r);
    }
  }

  void end_computation(std::size_t r) {
    Rank& rank = ranks_[r];
    CellTimes& cell = result_.cells[r][rank.running];
    cell.end = {now_};
    rank.computing = false;
    rank.last_end = last_ = now_;
    result_.ranks[r].busy += cell.end - cell.begin;
    for (const Action a : members(s_.rows[r], cell.position)) {
      if (a.kind == ActionKind::forward) forward_end_[dense_id(s_, a)] = now_;
      if (gives_gradient(a.kind)) gradient_end_[dense_id(s_, a)] = now_;
      const Action send = lowered_ ? Action{} : send_after(s_, a);
      if (send.kind == ActionKind::idle) continue;
      Transfer& t = transfer(send);
      t.sent = t.received = now_;
      begin_transfer(transfer_of_[index_of(send)]);
    }
  }

  void end_side(std::size_t r) {
    Rank& rank = ranks_[r];
    CellTimes& cell = result_.cells[r][rank.side[rank.side_next++]];
    cell.end = {now_};
    rank.side_busy = false;
    last_ = now_;
    const Action a = s_.rows[r][cell.position];
    if (a.kind == ActionKind::unshard) {
      unsharded_[at(a.stage)] = Parameters::here;
      last_unshard_end_.resize(s_.rank_of_stage.size(), kNotYet);
      last_unshard_end_[at(a.stage)] = now_;
    }
    begin_side(r);
  }

  // ---- at the end

  void finish() {
    std::string stuck;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Row& row = s_.rows[r];
      if (ranks_[r].position >= row.size()) continue;
      std::string cell;
      for (const Action a : members(row, ranks_[r].position)) {
        if (!ready(a)) cell += (cell.empty() ? "" : ", ") + to_string(a);
      }
      stuck += fmt::format("\n  rank {} waits at entry {}: {}", r, ranks_[r].position, cell);
    }
    for (const Transfer& t : transfers_) {
      if (t.delivered || !lowered_) continue;
      if (t.end == kNotYet || t.received != kNotYet || !stuck.empty()) {
        const char* state = t.sent == kNotYet       ? "is received, but never sent"
                            : t.received == kNotYet ? "is sent, but never received"
                                                    : "stands behind others in a queue";
        stuck += fmt::format("\n  {} {}", to_string(t.send), state);
      }
    }
    if (!stuck.empty()) {
      ir::user_error(kSimulationStuck, {}, "the ranks wait for each other:" + stuck,
                     "'braid pipeline check' shows the cycle");
    }
    result_.makespan = {last_};
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      RankTimes& times = result_.ranks[r];
      if (ranks_[r].last_end == kNotYet) {
        times.skew = {last_};
      } else {
        times.tail = {last_ - ranks_[r].last_end};
      }
    }
    std::vector<int> order(transfers_.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int>(k);
    std::ranges::stable_sort(order, {}, [&](int k) { return transfers_[at(k)].begin; });
    result_.transfers.reserve(order.size());
    for (const int k : order) {
      const Transfer& t = transfers_[at(k)];
      result_.transfers.push_back({t.send, t.from, t.to, {t.sent}, {t.received}, {t.begin}, {t.end}});
    }
  }

  const Schedule& s_;
  const PipelineCosts& costs_;
  ChannelPolicy policy_;
  ChannelLayout layout_;
  bool lowered_ = false;

  std::int64_t now_ = 0;
  std::int64_t last_ = 0;  // end of what has ended last
  int batch_ = 0;
  std::vector<Rank> ranks_;
  std::vector<std::int64_t> forward_end_, gradient_end_;  // by (stage, micro-batch)
  std::vector<int> transfer_of_;  // by (stage, micro-batch) of the SEND, forward and backward
  std::vector<Transfer> transfers_;
  std::vector<Queue> queues_;
  std::vector<int> touched_, flying_, ended_;
  std::vector<Parameters> unsharded_;           // by stage
  std::vector<std::int64_t> last_unshard_end_;  // by stage; empty if there was none
  std::vector<int> outstanding_;                // by connection: begun and not delivered
  std::vector<std::vector<int>> senders_;       // by connection; made when it is first asked for
  std::vector<int> leaving_, entering_;         // transfers in flight, by rank
  Simulation result_;
};

}  // namespace

Time Simulation::idle() const {
  Time sum;
  for (const RankTimes& r : ranks) sum += r.idle();
  return sum;
}

Simulation simulate(const Schedule& schedule, const PipelineCosts& costs, ChannelPolicy policy) {
  return Engine(schedule, costs, policy).run();
}

}  // namespace braid::pipeline
