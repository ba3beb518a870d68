#include "pipeline/merge_backward.h"

namespace braid::pipeline {

using enum ActionKind;

PipelineSchedule merge_backward(const PipelineSchedule& schedule) {
  return with_rows(schedule, [](int, const Row& row) {
    Row out;
    out.reserve(row.size());
    bool after_input = false;  // the last cell of `out` is an I
    for (std::size_t p = 0; p < row.size(); p += cell_size(row, p)) {
      const Action a = row[p];
      if (a.kind == idle) continue;
      if (after_input && a.kind == backward_weight && out.back().stage == a.stage &&
          out.back().microbatch == a.microbatch) {
        out.back().kind = full_backward;
        after_input = false;
        continue;
      }
      append(out, entries(row, p));
      after_input = a.kind == backward_input;
    }
    return out;
  });
}

}  // namespace braid::pipeline
