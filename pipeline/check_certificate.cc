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
  Check(const Schedule& s, const Certificate& c)
      : s_(s), c_(c), layout_(s, c.policy.kind), at_(4 * dense_size(s), kNever), complete_(at_) {}

  std::string run() {
    std::size_t transfers = 0;
    for (const Row& row : s_.rows)
      for (const Action a : row) transfers += is_send(a.kind) || is_recv(a.kind);
    const bool rendezvous = c_.policy.buffered == 0;
    if (c_.order.size() != (rendezvous ? transfers / 2 : transfers))
      return fmt::format("the certificate has {} entries for {} transfers", c_.order.size(), transfers);
    for (std::size_t i = 0; i < c_.order.size(); ++i) {
      const Action t = c_.order[i];
      const bool form = is_send(t.kind) || (!rendezvous && is_recv(t.kind));
      if (!form || t.stage < 0 || t.stage >= s_.stages() || t.microbatch < 0 ||
          t.microbatch >= s_.microbatches)
        return fmt::format("entry {} is not a transfer", i);
      if (at(t) != kNever) return fmt::format("{} occurs twice", to_string(t));
      at(t) = static_cast<std::int32_t>(i);
      if (rendezvous) at(counterpart(t)) = static_cast<std::int32_t>(i);
    }
    std::string problem = check_connections();
    for (const Row& row : s_.rows)
      if (problem.empty()) problem = check_row(row);
    return problem;
  }

 private:
  static constexpr std::int32_t kNever = -1;

  std::size_t number(Action t) const {
    return 4 * dense_id(s_, t) + static_cast<std::size_t>(t.kind) -
           static_cast<std::size_t>(ActionKind::send_forward);
  }
  std::int32_t& at(Action t) { return at_[number(t)]; }
  std::int32_t& complete(Action t) { return complete_[number(t)]; }

  // Equal orders at both ends; a message leaves before it arrives, and after a buffer is free for it.
  std::string check_connections() {
    std::vector<std::vector<Action>> sends(static_cast<std::size_t>(layout_.connections())), recvs = sends;
    for (const Row& row : s_.rows)
      for (const Action t : row) {
        if (is_send(t.kind)) sends[static_cast<std::size_t>(layout_.connection_of(t))].push_back(t);
        if (is_recv(t.kind)) recvs[static_cast<std::size_t>(layout_.connection_of(t))].push_back(t);
      }
    const auto buffered = static_cast<std::size_t>(c_.policy.buffered);
    for (std::size_t c = 0; c < sends.size(); ++c) {
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

  // When all transfers of the queue so far are through, and when everything that the cells so far wait for
  // is.
  std::string check_row(const Row& row) {
    std::vector<std::int32_t> through(static_cast<std::size_t>(layout_.queues()), kNever);
    std::int32_t computed = kNever;
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
        if (at(t) <= std::max(computed, through[static_cast<std::size_t>(layout_.queue_of(t))]))
          return fmt::format("{} passes before what precedes it in its queue or row", to_string(t));
      for (const Action t : cell) {
        std::int32_t& all = through[static_cast<std::size_t>(layout_.queue_of(t))];
        all = std::max(all, at(t));
      }
      for (const Action t : cell) complete(t) = through[static_cast<std::size_t>(layout_.queue_of(t))];
    }
    return {};
  }

  const Schedule& s_;
  const Certificate& c_;
  ChannelLayout layout_;
  std::vector<std::int32_t> at_;        // per transfer: its entry
  std::vector<std::int32_t> complete_;  // per transfer: the entry after which nobody waits for it
};

}  // namespace

std::string check_certificate(const Schedule& schedule, const Certificate& certificate) {
  return Check(schedule, certificate).run();
}

}  // namespace braid::pipeline
