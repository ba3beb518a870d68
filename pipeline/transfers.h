// Shared by the passes over schedules: dense numbers of (stage, micro-batch), sets of kinds in one byte, and
// which neighbouring stages exchange messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pipeline/schedule.h"

namespace braid::pipeline {

// Computations and transfers, the first eight kinds, as bits of one byte.
using KindSet = std::uint8_t;
constexpr KindSet bit(ActionKind k) { return static_cast<KindSet>(1U << (static_cast<unsigned>(k) - 1)); }
inline constexpr KindSet kInputGradient = bit(ActionKind::backward_input) | bit(ActionKind::full_backward);

// Below kMostStageMicrobatches (validate.h).
inline std::size_t dense_id(const Schedule& s, Action a) {
  return static_cast<std::size_t>(a.stage) * static_cast<std::size_t>(s.microbatches) +
         static_cast<std::size_t>(a.microbatch);
}
inline std::size_t dense_size(const Schedule& s) {
  return s.rank_of_stage.size() * static_cast<std::size_t>(s.microbatches);
}

// Whether `stage` and `stage + 1` exist and lie on different ranks, so that values between them are sent. On
// one rank the tensor is passed directly.
inline bool sent_between(const Schedule& s, int stage) {
  return stage >= 0 && stage + 1 < s.stages() &&
         s.rank_of_stage[static_cast<std::size_t>(stage)] !=
             s.rank_of_stage[static_cast<std::size_t>(stage) + 1];
}
inline bool handed_over_between(const Schedule& s, int stage) {
  return stage >= 0 && stage + 1 < s.stages() && !sent_between(s, stage);
}

// The rank at the other end of a SEND or RECV.
inline int peer_of(const Schedule& s, Action transfer) {
  return s.rank_of_stage[static_cast<std::size_t>(counterpart(transfer).stage)];
}

// The transfer after an action's result, or before its input; idle if there is none.
inline Action send_after(const Schedule& s, Action a) {
  if (a.kind == ActionKind::forward && sent_between(s, a.stage))
    return {ActionKind::send_forward, a.stage, a.microbatch};
  if ((a.kind == ActionKind::backward_input || a.kind == ActionKind::full_backward) &&
      sent_between(s, a.stage - 1))
    return {ActionKind::send_backward, a.stage, a.microbatch};
  return {};
}
inline Action recv_before(const Schedule& s, Action a) {
  if (a.kind == ActionKind::forward && sent_between(s, a.stage - 1))
    return {ActionKind::recv_forward, a.stage, a.microbatch};
  if ((a.kind == ActionKind::backward_input || a.kind == ActionKind::full_backward) &&
      sent_between(s, a.stage))
    return {ActionKind::recv_backward, a.stage, a.microbatch};
  return {};
}

// The transfer that must be complete before an action begins: the RECV of its input or the SEND of a
// WAIT_SEND; idle if there is none.
inline Action awaited_transfer(const Schedule& s, Action a) {
  return is_wait_send(a.kind) ? send_of(a) : recv_before(s, a);
}

}  // namespace braid::pipeline
