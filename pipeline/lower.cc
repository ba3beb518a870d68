#include "pipeline/lower.h"

#include "ir/error.h"
#include "pipeline/add_reduce_grad.h"
#include "pipeline/add_send_recv.h"
#include "pipeline/add_wait_send.h"
#include "pipeline/defer_recv.h"
#include "pipeline/merge_backward.h"

namespace braid::pipeline {
namespace {

// Returns the rows without deferral if the option allows it and the proof rejects the deferral.
Lowered with_deferral(PipelineSchedule plain, const LowerOptions& options) {
  PipelineSchedule deferred = defer_recv(plain);
  if (options.unsafe_deferral == LowerOptions::UnsafeDeferral::refuse) {
    PassingOrder certificate = require_deadlock_free(deferred, options.channels);
    return {std::move(deferred), std::move(certificate), {}};
  }
  Proof proof = prove_deadlock_free(deferred, options.channels);
  if (auto* certificate = std::get_if<PassingOrder>(&proof))
    return {std::move(deferred), std::move(*certificate), {}};
  std::string objection = to_text(deferred, proof);
  PassingOrder certificate = require_deadlock_free(plain, options.channels);
  return {std::move(plain), std::move(certificate), std::move(objection)};
}

}  // namespace

Lowered lower(const PipelineSchedule& schedule, const LowerOptions& options) {
  validate(schedule, {.phases = options.phases});
  PipelineSchedule rows;
  const PipelineSchedule* current = &schedule;
  const auto apply = [&](PipelineSchedule next) {
    rows = std::move(next);
    current = &rows;
    validate(rows, {.phases = options.phases});
  };
  if (options.merge_backward) apply(merge_backward(*current));
  if (options.unshard) apply(add_unshard_reshard(*current, *options.unshard));
  if (options.reduce_grad) apply(add_reduce_grad(*current, options.waits));
  rows = add_send_recv(*current);
  if (options.waits) rows = add_wait_send(rows);
  if (options.defer_recv) return with_deferral(std::move(rows), options);
  PassingOrder certificate = require_deadlock_free(rows, options.channels);  // validates as well
  return {std::move(rows), std::move(certificate), {}};
}

}  // namespace braid::pipeline
