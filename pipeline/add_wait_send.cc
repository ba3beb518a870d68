#include "pipeline/add_wait_send.h"

#include "pipeline/transfers.h"

namespace braid::pipeline {

PipelineSchedule add_wait_send(const PipelineSchedule& schedule) {
  // The SENDs without a WAIT_SEND so far.
  IdVector<StageMicrobatch, KindSet> pending(stage_microbatches(schedule));
  return with_rows(schedule, [&](int, const Row& row) {
    Row to;
    to.reserve(row.size() + row.size() / 2);
    const auto wait = [&](Action send) {
      KindSet& set = pending[stage_microbatch(schedule, send)];
      if ((set & bit(send.kind)) == 0) return;
      set &= static_cast<KindSet>(~bit(send.kind));
      to.push_back(wait_of(send));
    };
    for (std::size_t p = 0; p < row.size(); p += cell_size(row, p)) {
      append(to, entries(row, p));
      for (const Action a : members(row, p)) {
        if (is_send(a.kind)) pending[stage_microbatch(schedule, a)] |= bit(a.kind);
        if (gives_input_gradient(a.kind)) wait({ActionKind::send_forward, a.stage, a.microbatch});
      }
    }
    for (const Action a : row)
      if (is_send(a.kind)) wait(a);
    return to;
  });
}

}  // namespace braid::pipeline
