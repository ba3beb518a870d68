#include "pipeline/merge_backward.h"

namespace braid::pipeline {
namespace {

using enum ActionKind;

Row merged(const Row& row) {
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
    for (std::size_t i = p; i < p + cell_size(row, p); ++i) out.push_back(row[i]);
    after_input = a.kind == backward_input;
  }
  return out;
}

}  // namespace

Schedule merge_backward(const Schedule& schedule) {
  Schedule out{schedule.rank_of_stage, {}, schedule.microbatches};
  out.rows.reserve(schedule.rows.size());
  for (const Row& row : schedule.rows) out.rows.push_back(merged(row));
  return out;
}

}  // namespace braid::pipeline
