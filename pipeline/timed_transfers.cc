#include "pipeline/timed_transfers.h"

#include <algorithm>

#include "ir/error.h"
#include "pipeline/transfers.h"

namespace braid::pipeline {

PipelineSchedule add_timed_send_recv(const SearchProblem& p, const Orders& orders) {
  MoveTimes timeline;
  const Evaluation evaluation = evaluate(p, orders, &timeline);
  ir::internal_check(evaluation.status == Evaluation::Status::ok,
                     "add_timed_send_recv: orders that cannot be executed");
  const PipelineSchedule compute = to_schedule(p, orders);
  PipelineSchedule out{compute.rank_of_stage, PerRank<Row>(compute.rows.ids()), compute.microbatches};
  // The sort is stable, so an action that takes no time stays after the one that it waits for.
  std::ranges::stable_sort(timeline.sequence, {},
                           [&](const auto& at) { return timeline.ends[at.first][at.second]; });
  for (const auto& [rank, position] : timeline.sequence) {
    const Action a = compute.rows[rank][position], send = send_after(compute, a);
    out.rows[rank].push_back(a);
    if (send.kind == ActionKind::idle) continue;
    out.rows[rank].push_back(send);
    out.rows[peer_of(compute, send)].push_back(counterpart(send));
  }
  return out;
}

}  // namespace braid::pipeline
