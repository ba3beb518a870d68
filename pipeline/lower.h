// From compute-only rows of a generator or a file to rows that ranks execute: validate, merge_backward,
// add_unshard_reshard, add_reduce_grad, add_send_recv, add_wait_send, defer_recv. Each result is validated,
// and in the end proved free of deadlock.
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
  bool waits = false;  // add a WAIT_SEND for every SEND, a WAIT_REDUCE_GRAD for every REDUCE_GRAD
  bool defer_recv = false;
  // A deferral that the proof rejects raises an error (refuse) or is left out.
  enum class UnsafeDeferral { refuse, leave_out };
  UnsafeDeferral unsafe_deferral = UnsafeDeferral::refuse;
  QueuePolicy channels;
};

struct Lowered {
  PipelineSchedule schedule;
  PassingOrder certificate;
  // Why the deferral was left out; empty if it was not.
  std::string deferral_left_out;
};

// Throws the user errors of the passes, and BR0838 or BR0839 with the mismatch or cycle for a refused
// deferral.
Lowered lower(const PipelineSchedule& schedule, const LowerOptions& options = {});

}  // namespace braid::pipeline
