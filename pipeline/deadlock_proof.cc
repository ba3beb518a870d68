#include "pipeline/deadlock_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "pipeline/rendezvous.h"
#include "pipeline/validate.h"

namespace braid::pipeline {
namespace {

template <class Visit>
void each_transfer(const PipelineSchedule& s, Visit visit) {
  for (const int rank : s.rows.ids()) {
    const Row& row = s.rows[rank];
    for (std::size_t p = 0; p < row.size(); ++p)
      if (is_send(row[p].kind) || is_recv(row[p].kind)) visit(rank, p, row[p]);
  }
}

// Whether the k-th SEND and the k-th RECV of every connection carry the same message.
bool same_order(const PipelineSchedule& s, const ChannelLayout& layout) {
  struct Numbers {
    std::int32_t send = 0, recv = 0;
  };
  IdVector<MessageId, Numbers> numbers(messages(s));
  IdVector<ConnectionId, Numbers> counts(layout.connections().ids());
  for (const Row& row : s.rows) {
    for (const Action t : row) {
      if (is_send(t.kind)) {
        numbers[message_of(s, t)].send = counts[layout.connection_of(t)].send++;
      } else if (is_recv(t.kind)) {
        numbers[message_of(s, counterpart(t))].recv = counts[layout.connection_of(t)].recv++;
      }
    }
  }
  return std::ranges::all_of(numbers, [](Numbers n) { return n.send == n.recv; });
}

ChannelMismatch first_mismatch(const PipelineSchedule& s, const ChannelLayout& layout) {
  struct Order {
    std::vector<RowAction> sends, recvs;
  };
  IdVector<ConnectionId, Order> orders(layout.connections().ids());
  each_transfer(s, [&](int rank, std::size_t p, Action t) {
    Order& order = orders[layout.connection_of(t)];
    (is_send(t.kind) ? order.sends : order.recvs).push_back({rank, p, t});
  });
  for (const ConnectionId c : orders.ids()) {
    auto& [sends, recvs] = orders[c];
    for (std::size_t i = 0; i < sends.size() && i < recvs.size(); ++i) {
      if (counterpart(sends[i].action) == recvs[i].action) continue;
      for (RowAction* a : {&sends[i], &recvs[i]}) a->position = cell_begin(s.rows[a->rank], a->position);
      const auto [from, to] = layout.connections()[c];
      return {from, to, i, sends[i], recvs[i]};
    }
  }
  throw ir::InternalError("all connections have equal orders");
}

std::string describe(const PipelineSchedule& s, const RowAction& a) {
  return fmt::format("{} ({})", to_string(a.action), location_text(s, a.rank, a.position));
}

}  // namespace

Proof prove_deadlock_free(const PipelineSchedule& schedule, QueuePolicy policy) {
  if (policy.buffered < 0)
    ir::user_error(errors::kBadLoweringOption, {},
                   fmt::format("expected at least 0 buffered messages, got {}", policy.buffered));
  validate(schedule, {.transfers = true});
  const ChannelLayout layout(schedule, policy.kind);
  if (!same_order(schedule, layout)) return first_mismatch(schedule, layout);
  Rendezvous rendezvous(schedule, layout, policy.buffered);
  std::vector<Action> order = rendezvous.run();
  if (rendezvous.finished()) return PassingOrder{policy, std::move(order)};
  return RendezvousCycle{policy, shortest_cycle(schedule, layout, policy, rendezvous)};
}

std::string to_text(const PipelineSchedule& schedule, const Proof& proof) {
  if (const auto* c = std::get_if<PassingOrder>(&proof))
    return fmt::format("no deadlock for any timing with {}: {} transfers in one order", to_string(c->policy),
                       c->order.size());
  if (const auto* m = std::get_if<ChannelMismatch>(&proof))
    return fmt::format("message {} from rank {} to rank {} is sent as {} and received as {}", m->message,
                       m->from, m->to, describe(schedule, m->send), describe(schedule, m->recv));
  const auto& cycle = std::get<RendezvousCycle>(proof);
  std::string text = fmt::format("the ranks wait for each other with {}:", to_string(cycle.policy));
  for (std::size_t i = 0; i < cycle.blocked.size(); ++i) {
    const BlockedAction& b = cycle.blocked[i];
    const BlockedAction& next = cycle.blocked[(i + 1) % cycle.blocked.size()];
    text += fmt::format("\n  {} needs {}", describe(schedule, b.at), to_string(b.needs));
    if (b.needs != next.at.action) text += fmt::format(", which is behind {}", describe(schedule, next.at));
  }
  return text;
}

PassingOrder require_deadlock_free(const PipelineSchedule& schedule, QueuePolicy policy) {
  Proof proof = prove_deadlock_free(schedule, policy);
  if (auto* c = std::get_if<PassingOrder>(&proof)) return std::move(*c);
  if (std::holds_alternative<ChannelMismatch>(proof))
    ir::user_error(errors::kChannelMismatch, {}, to_text(schedule, proof),
                   "a channel has no tags: its SENDs and RECVs must have the same order");
  ir::user_error(errors::kRendezvousCycle, {}, to_text(schedule, proof),
                 "move a RECV before the SEND that precedes it, or let fewer transfers share a channel");
}

}  // namespace braid::pipeline
