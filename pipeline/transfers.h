// Shared by the passes over schedules: numbers of (stage, micro-batch) and of messages, sets of kinds in one
// byte, and which neighbouring stages exchange messages.
#pragma once

#include <cstdint>

#include "pipeline/schedule.h"

namespace braid::pipeline {

// Computations and transfers, the first eight kinds, as bits of one byte.
using KindSet = std::uint8_t;
constexpr KindSet bit(ActionKind k) { return static_cast<KindSet>(1U << (static_cast<unsigned>(k) - 1)); }
inline constexpr KindSet kInputGradient = bit(ActionKind::backward_input) | bit(ActionKind::full_backward);

// Stage by stage, below kMostStageMicrobatches (validate.h).
inline StageMicrobatch stage_microbatch(const PipelineSchedule& s, Action a) {
  return {a.stage * s.microbatches + a.microbatch};
}
inline IdRange<StageMicrobatch> stage_microbatches(const PipelineSchedule& s) {
  return first_ids<StageMicrobatch>(s.stages() * s.microbatches);
}

// A message has the number of its SEND: forward and backward of each stage and micro-batch.
inline MessageId message_of(const PipelineSchedule& s, Action send) {
  return {2 * stage_microbatch(s, send).index + (send.kind == ActionKind::send_backward ? 1 : 0)};
}
inline IdRange<MessageId> messages(const PipelineSchedule& s) {
  return first_ids<MessageId>(2 * s.stages() * s.microbatches);
}

// SEND_F, RECV_F, SEND_B, RECV_B: 0 to 3.
constexpr int transfer_index(ActionKind transfer) {
  return static_cast<int>(transfer) - static_cast<int>(ActionKind::send_forward);
}
constexpr ActionKind transfer_kind(int index) {
  return static_cast<ActionKind>(static_cast<int>(ActionKind::send_forward) + index);
}

// Whether `stage` and `stage + 1` exist and lie on different ranks, so that values between them are sent. On
// one rank the tensor is passed directly.
inline bool sent_between(const PipelineSchedule& s, int stage) {
  return stage >= 0 && stage + 1 < s.stages() && s.rank_of_stage[stage] != s.rank_of_stage[stage + 1];
}
inline bool handed_over_between(const PipelineSchedule& s, int stage) {
  return stage >= 0 && stage + 1 < s.stages() && !sent_between(s, stage);
}

// The rank at the other end of a SEND or RECV.
inline int peer_of(const PipelineSchedule& s, Action transfer) {
  return s.rank_of_stage[counterpart(transfer).stage];
}

// The transfer after an action's result, or before its input; idle if there is none.
inline Action send_after(const PipelineSchedule& s, Action a) {
  if (a.kind == ActionKind::forward && sent_between(s, a.stage))
    return {ActionKind::send_forward, a.stage, a.microbatch};
  if (gives_input_gradient(a.kind) && sent_between(s, a.stage - 1))
    return {ActionKind::send_backward, a.stage, a.microbatch};
  return {};
}
inline Action recv_before(const PipelineSchedule& s, Action a) {
  if (a.kind == ActionKind::forward && sent_between(s, a.stage - 1))
    return {ActionKind::recv_forward, a.stage, a.microbatch};
  if (gives_input_gradient(a.kind) && sent_between(s, a.stage))
    return {ActionKind::recv_backward, a.stage, a.microbatch};
  return {};
}

// The transfer that must be complete before an action begins: the RECV of its input or the SEND of a
// WAIT_SEND; idle if there is none.
inline Action awaited_transfer(const PipelineSchedule& s, Action a) {
  return is_wait_send(a.kind) ? send_of(a) : recv_before(s, a);
}

}  // namespace braid::pipeline
