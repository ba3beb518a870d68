#include "pipeline/add_wait_send.h"

#include "pipeline/transfers.h"

namespace braid::pipeline {

using enum ActionKind;

Schedule add_wait_send(const Schedule& schedule) {
  Schedule out{schedule.rank_of_stage, {}, schedule.microbatches};
  out.rows.reserve(schedule.rows.size());
  std::vector<KindSet> pending(dense_size(schedule), 0);  // SENDs that nothing has waited for
  for (const Row& row : schedule.rows) {
    Row& to = out.rows.emplace_back();
    to.reserve(row.size() + row.size() / 2);
    const auto wait = [&](Action send) {
      KindSet& set = pending[dense_id(schedule, send)];
      if ((set & bit(send.kind)) == 0) return;
      set &= static_cast<KindSet>(~bit(send.kind));
      to.push_back(
          {send.kind == send_forward ? wait_send_forward : wait_send_backward, send.stage, send.microbatch});
    };
    for (std::size_t p = 0; p < row.size(); p += cell_size(row, p)) {
      to.insert(to.end(), row.begin() + static_cast<std::ptrdiff_t>(p),
                row.begin() + static_cast<std::ptrdiff_t>(p + cell_size(row, p)));
      for (const Action a : members(row, p)) {
        if (is_send(a.kind)) pending[dense_id(schedule, a)] |= bit(a.kind);
        if (a.kind == backward_input || a.kind == full_backward) wait({send_forward, a.stage, a.microbatch});
      }
    }
    for (const Action a : row)
      if (is_send(a.kind)) wait(a);
  }
  return out;
}

}  // namespace braid::pipeline
