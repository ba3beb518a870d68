#include "pipeline/timed_transfers.h"

#include <algorithm>

#include "ir/error.h"

namespace braid::pipeline {

Schedule add_timed_send_recv(const SearchProblem& p, const Orders& orders) {
  Timeline timeline;
  const Evaluation evaluation = evaluate(p, orders, &timeline);
  ir::internal_check(evaluation.status == Evaluation::Status::ok,
                     "add_timed_send_recv: orders that cannot be executed");
  const Schedule compute = to_schedule(p, orders);
  Schedule out;
  out.rank_of_stage = compute.rank_of_stage;
  out.microbatches = compute.microbatches;
  out.rows.resize(compute.rows.size());
  const auto end = [&](std::pair<std::int32_t, std::int32_t> at) {
    return timeline.ends[static_cast<std::size_t>(at.first)][static_cast<std::size_t>(at.second)];
  };
  // Stable: what takes no time stays behind what it waits for.
  std::stable_sort(timeline.sequence.begin(), timeline.sequence.end(),
                   [&](const auto& a, const auto& b) { return end(a) < end(b); });
  for (const auto& [rank, position] : timeline.sequence) {
    const Action a = compute.rows[static_cast<std::size_t>(rank)][static_cast<std::size_t>(position)];
    out.rows[static_cast<std::size_t>(rank)].push_back(a);
    const bool forward = a.kind == ActionKind::forward;
    if (!forward && a.kind != ActionKind::backward_input && a.kind != ActionKind::full_backward) continue;
    const int peer_stage = forward ? a.stage + 1 : a.stage - 1;
    if (peer_stage < 0 || peer_stage == p.stage_count()) continue;
    const std::int32_t peer = p.rank_of_stage[static_cast<std::size_t>(peer_stage)];
    if (peer == rank) continue;
    const Action send{forward ? ActionKind::send_forward : ActionKind::send_backward, a.stage, a.microbatch};
    out.rows[static_cast<std::size_t>(rank)].push_back(send);
    out.rows[static_cast<std::size_t>(peer)].push_back(counterpart(send));
  }
  return out;
}

}  // namespace braid::pipeline
