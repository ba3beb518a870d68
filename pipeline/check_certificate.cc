// Checks an order of messages against the rows, one rank at a time: an order in which everything comes after
// what it waits for is executable.
#include <fmt/format.h>

#include <algorithm>

#include "pipeline/channel_layout.h"
#include "pipeline/deadlock_proof.h"
#include "pipeline/transfers.h"
#include "pipeline/validate.h"

namespace braid::pipeline {
namespace {

class Check {
 public:
  Check(const PipelineSchedule& s, const PassingOrder& c)
      : s_(s),
        c_(c),
        layout_(s, c.policy.kind),
        at_(first_ids<int>(4 * s.stages() * s.microbatches), kNever),
        complete_(at_) {}

  std::string run() {
    std::size_t transfers = 0;
    for (const Row& row : s_.rows)
      for (const Action a : row) transfers += is_send(a.kind) || is_recv(a.kind);
    const bool rendezvous = c_.policy.buffered == 0;
    if (c_.order.size() != (rendezvous ? transfers / 2 : transfers))
      return fmt::format("the certificate has {} entries for {} transfers", c_.order.size(), transfers);
    for (int i = 0; i < count_of(c_.order); ++i) {
      const Action t = ir::at(c_.order, i);
      const bool form = is_send(t.kind) || (!rendezvous && is_recv(t.kind));
      if (!form || t.stage < 0 || t.stage >= s_.stages() || t.microbatch < 0 ||
          t.microbatch >= s_.microbatches)
        return fmt::format("entry {} is not a transfer", i);
      if (at(t) != kNever) return fmt::format("{} occurs twice", to_string(t));
      at(t) = i;
      if (rendezvous) at(counterpart(t)) = i;
    }
    std::string problem = check_connections();
    for (const Row& row : s_.rows)
      if (problem.empty()) problem = check_row(row);
    return problem;
  }

 private:
  static constexpr int kNever = -1;

  int number(Action t) const { return 4 * stage_microbatch(s_, t).index + transfer_index(t.kind); }
  int& at(Action t) { return at_[number(t)]; }
  int& complete(Action t) { return complete_[number(t)]; }

  // Equal orders at both ends; a message leaves before it arrives, and after a buffer is free for it.
  std::string check_connections() {
    IdVector<ConnectionId, std::vector<Action>> sends(layout_.connections().ids()), recvs = sends;
    for (const Row& row : s_.rows)
      for (const Action t : row) {
        if (is_send(t.kind)) sends[layout_.connection_of(t)].push_back(t);
        if (is_recv(t.kind)) recvs[layout_.connection_of(t)].push_back(t);
      }
    const auto buffered = static_cast<std::size_t>(c_.policy.buffered);
    for (const ConnectionId c : sends.ids()) {
      if (sends[c].size() != recvs[c].size()) return "a SEND has no RECV";
      for (std::size_t i = 0; i < sends[c].size(); ++i) {
        const Action send = sends[c][i];
        if (counterpart(send) != recvs[c][i])
          return fmt::format("{} meets {}", to_string(send), to_string(recvs[c][i]));
        if (at(send) == kNever || at(recvs[c][i]) == kNever)
          return fmt::format("{} is missing", to_string(send));
        if (buffered == 0) continue;
        if (at(send) >= at(recvs[c][i])) return fmt::format("{} arrives before it leaves", to_string(send));
        if (i >= buffered && at(send) < at(recvs[c][i - buffered]))
          return fmt::format("there is no buffer for {}", to_string(send));
      }
    }
    return {};
  }

  // `through`: the entry after which all transfers of the queue so far have passed; `computed`: the one after
  // which all transfers that the cells so far wait for are complete.
  std::string check_row(const Row& row) {
    IdVector<QueueId, int> through(layout_.queues(), kNever);
    int computed = kNever;
    for (std::size_t p = 0; p < row.size(); p += cell_size(row, p)) {
      const auto cell = members(row, p);
      if (!is_send(cell.front().kind) && !is_recv(cell.front().kind)) {
        for (const Action a : cell) {
          const Action t = awaited_transfer(s_, a);
          if (t.kind == ActionKind::idle) continue;
          if (complete(t) == kNever) return fmt::format("{} comes before {}", to_string(a), to_string(t));
          computed = std::max(computed, complete(t));
        }
        continue;
      }
      for (const Action t : cell)
        if (at(t) <= std::max(computed, through[layout_.queue_of(t)]))
          return fmt::format("{} passes before what precedes it in its queue or row", to_string(t));
      for (const Action t : cell) {
        int& all = through[layout_.queue_of(t)];
        all = std::max(all, at(t));
      }
      for (const Action t : cell) complete(t) = through[layout_.queue_of(t)];
    }
    return {};
  }

  const PipelineSchedule& s_;
  const PassingOrder& c_;
  ChannelLayout layout_;
  IdVector<int, int> at_;        // by number(): the entry of the transfer
  IdVector<int, int> complete_;  // the entry after which no action waits for the transfer
};

}  // namespace

std::string check_certificate(const PipelineSchedule& schedule, const PassingOrder& certificate) {
  return Check(schedule, certificate).run();
}

}  // namespace braid::pipeline
