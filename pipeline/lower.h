// From the rows of a generator or a file, which compute only, to rows that ranks execute: validate,
// merge_backward, add_unshard_reshard, add_reduce_grad, add_send_recv, add_wait_send, defer_recv, each result
// validated, and at the end the proof that no timing makes it hang.
#pragma once

#include <optional>

#include "pipeline/add_unshard_reshard.h"
#include "pipeline/deadlock_proof.h"
#include "pipeline/schedule.h"
#include "pipeline/validate.h"

namespace braid::pipeline {

struct LowerOptions {
  ValidateOptions::Phases phases = ValidateOptions::Phases::either;
  bool merge_backward = false;
  std::optional<UnshardOptions> unshard;
  bool reduce_grad = false;
  bool waits = false;  // a WAIT_SEND for every SEND, a WAIT_REDUCE_GRAD behind every REDUCE_GRAD
  bool defer_recv = false;
  // What a deferral that the proof does not accept becomes: an error, or the rows without it.
  enum class UnsafeDeferral { refuse, leave_out };
  UnsafeDeferral unsafe_deferral = UnsafeDeferral::refuse;
  ChannelPolicy channels;
};

struct Lowered {
  Schedule schedule;
  Certificate certificate;
  // Why the deferral was left out, in words; empty when it was not.
  std::string deferral_left_out;
};

// Throws the user errors of the passes; BR0838 or BR0839, with the cycle, for a deferral that is refused.
Lowered lower(const Schedule& schedule, const LowerOptions& options = {});

}  // namespace braid::pipeline
