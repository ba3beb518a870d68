// Actions of a pipeline schedule: what one rank does with one stage and one micro-batch.
//
//   text          meaning
//   2F0           forward of stage 2, micro-batch 0
//   2I0 2W0 2B0   backward for the stage's input, for its weights, both in one
//   2SEND_F0      the activation of stage 2 goes to stage 3; pairs with 3RECV_F0
//   2SEND_B0      the gradient of stage 2's input goes to stage 1; pairs with 1RECV_B0
//   2UNSHARD 2RESHARD   gathers the parameters of stage 2, frees them
//   2REDUCE_GRAD  reduces and scales the gradients of stage 2, once per step
//   2WAIT_SEND_F0 2WAIT_SEND_B0   waits until 2SEND_F0, 2SEND_B0 is complete; without it a SEND completes by
//                 the end of the step
//   2WAIT_REDUCE_GRAD   waits until 2REDUCE_GRAD is complete
//   (2F1;1B0)OVERLAP_F_B        members run concurrently
//   (0SEND_F0;2RECV_F0)BATCH_P2P  transfers that are posted together
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace braid::pipeline {

enum class ActionKind : std::uint8_t {
  idle,  // an empty cell: a turn in which the rank does nothing, which can move RECVs (add_send_recv.h)
  forward,
  backward_input,
  backward_weight,
  full_backward,
  send_forward,
  recv_forward,
  send_backward,
  recv_backward,
  unshard,
  reshard,
  reduce_grad,
  wait_send_forward,
  wait_send_backward,
  wait_reduce_grad,
  overlap_f_b,  // containers: `microbatch` is the number of members, which follow in the row; stage is -1
  batch_p2p,
};

struct Action {
  ActionKind kind = ActionKind::idle;
  std::int32_t stage = -1;
  std::int32_t microbatch = -1;  // -1: the action has none

  friend constexpr auto operator<=>(const Action&, const Action&) = default;
};

constexpr bool is_container(ActionKind k) { return k >= ActionKind::overlap_f_b; }
constexpr bool is_compute(ActionKind k) { return k >= ActionKind::forward && k <= ActionKind::full_backward; }
constexpr bool is_backward(ActionKind k) {
  return k >= ActionKind::backward_input && k <= ActionKind::full_backward;
}
constexpr bool gives_input_gradient(ActionKind k) {
  return k == ActionKind::backward_input || k == ActionKind::full_backward;
}
constexpr bool gives_weight_gradient(ActionKind k) {
  return k == ActionKind::backward_weight || k == ActionKind::full_backward;
}
constexpr bool is_send(ActionKind k) {
  return k == ActionKind::send_forward || k == ActionKind::send_backward;
}
constexpr bool is_recv(ActionKind k) {
  return k == ActionKind::recv_forward || k == ActionKind::recv_backward;
}
constexpr bool is_wait_send(ActionKind k) {
  return k == ActionKind::wait_send_forward || k == ActionKind::wait_send_backward;
}
constexpr bool has_microbatch(ActionKind k) {
  return (k >= ActionKind::forward && k <= ActionKind::recv_backward) || is_wait_send(k);
}

// The other end of a SEND or RECV: 0SEND_F3 <-> 1RECV_F3, 1SEND_B3 <-> 0RECV_B3.
constexpr Action counterpart(Action a) {
  switch (a.kind) {
    case ActionKind::send_forward:
      return {ActionKind::recv_forward, a.stage + 1, a.microbatch};
    case ActionKind::recv_forward:
      return {ActionKind::send_forward, a.stage - 1, a.microbatch};
    case ActionKind::send_backward:
      return {ActionKind::recv_backward, a.stage - 1, a.microbatch};
    case ActionKind::recv_backward:
      return {ActionKind::send_backward, a.stage + 1, a.microbatch};
    default:
      return {};
  }
}

// The SEND that a WAIT_SEND waits for, and its inverse.
constexpr Action send_of(Action wait) {
  return {wait.kind == ActionKind::wait_send_forward ? ActionKind::send_forward : ActionKind::send_backward,
          wait.stage, wait.microbatch};
}
constexpr Action wait_of(Action send) {
  return {
      send.kind == ActionKind::send_forward ? ActionKind::wait_send_forward : ActionKind::wait_send_backward,
      send.stage, send.microbatch};
}

// "2SEND_F0"; the text of an idle cell is empty. text.h prints containers with their members.
std::string to_string(Action action);

}  // namespace braid::pipeline
