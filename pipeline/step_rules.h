// Whether an action may take its step as far as its own rank is concerned; RECVs depend on other ranks.
#pragma once

#include "pipeline/transfers.h"

namespace braid::pipeline {

class StepRules {
 public:
  explicit StepRules(const PipelineSchedule& s) : s_(s), done_(stage_microbatches(s)) {}

  // Treats every RECV as ready, whatever its SEND. All else that `a` needs is on its own rank, except the
  // RECV that a WAIT_SEND needs.
  bool ready(Action a) const {
    switch (a.kind) {
      case ActionKind::forward:
        return a.stage == 0 || has(a, 0, bit(ActionKind::recv_forward)) ||
               (handed_over_between(s_, a.stage - 1) && has(a, -1, bit(ActionKind::forward)));
      case ActionKind::backward_input:
      case ActionKind::full_backward:
        return a.stage + 1 == s_.stages() || has(a, 0, bit(ActionKind::recv_backward)) ||
               (handed_over_between(s_, a.stage) && has(a, 1, kInputGradient));
      case ActionKind::send_forward:
        return has(a, 0, bit(ActionKind::forward));
      case ActionKind::send_backward:
        return has(a, 0, kInputGradient);
      case ActionKind::wait_send_forward:
        return has(a, 0, bit(ActionKind::send_forward)) && has(a, 1, bit(ActionKind::recv_forward));
      case ActionKind::wait_send_backward:
        return has(a, 0, bit(ActionKind::send_backward)) && has(a, -1, bit(ActionKind::recv_backward));
      default:
        return true;
    }
  }

  void record(Action a) {
    if (has_microbatch(a.kind) && !is_wait_send(a.kind)) done_[stage_microbatch(s_, a)] |= bit(a.kind);
  }
  bool has(Action a, int stages_away, KindSet any_of) const {
    return (done_[stage_microbatch(s_, a) + stages_away * s_.microbatches] & any_of) != 0;
  }

 private:
  const PipelineSchedule& s_;
  IdVector<StageMicrobatch, KindSet> done_;
};

}  // namespace braid::pipeline
