// Proves that a lowered schedule cannot hang, whatever the timing of ranks and network.
//
// Execution model: a rank executes its row in order. Compute actions (and UNSHARD, RESHARD, REDUCE_GRAD) run
// one after another; an action that consumes a RECV waits for it, and WAIT_SEND waits for its SEND. A
// transfer is posted into its queue (channels.h) once everything before it in the row that computes or waits
// is done; nothing else waits for a SEND. A queue processes its transfers in order. A message passes when its
// SEND and its RECV are both at the front of their queues. If the channel buffers K messages, a SEND at the
// front also leaves while fewer than K messages of its connection (ordered pair of ranks) are in flight.
// Messages of a connection leave and arrive in order, also within a batch. The members of a BATCH_P2P are
// posted together: those in one queue are at its front together, and they complete together when all of them
// have passed; then the queue advances.
//
// Queues carry no tags: the k-th SEND from one rank to another meets the k-th RECV. So the SENDs and the
// RECVs of each connection must have the same order, and the wait-for relation must be acyclic. Timing never
// disables what is enabled, so every execution gets equally far: if one completes, all do. The order in which
// its messages pass is a certificate that check_certificate checks against the schedule without repeating the
// proof.
//
// Nothing else in Braid declares a schedule free of deadlock. Linear in the actions.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "pipeline/queue_policy.h"
#include "pipeline/schedule.h"

namespace braid::pipeline {

// An order in which all messages pass, each named by its SEND; with buffering, SENDs and RECVs are separate.
struct PassingOrder {
  QueuePolicy policy;
  std::vector<Action> order;
};

struct RowAction {
  int rank = 0;
  std::size_t position = 0;  // index in the row of the action or its container
  Action action;

  friend bool operator==(const RowAction&, const RowAction&) = default;
};

// The first message of a connection whose SEND and RECV differ: each would be matched with the wrong partner.
struct ChannelMismatch {
  int from = 0, to = 0;
  std::size_t message = 0;  // index in the connection, from 0
  RowAction send, recv;     // those at this index
};

// `at` cannot proceed before `needs`, which is queued behind the next entry's `at` or follows it in its row;
// the last entry waits for the first.
struct BlockedAction {
  RowAction at;
  Action needs;
};
struct RendezvousCycle {
  QueuePolicy policy;
  std::vector<BlockedAction> blocked;  // a shortest cycle
};

using Proof = std::variant<PassingOrder, ChannelMismatch, RendezvousCycle>;

// Throws what validate (with transfers) throws for an invalid schedule.
Proof prove_deadlock_free(const PipelineSchedule& schedule, QueuePolicy policy);

inline bool is_safe(const Proof& proof) { return std::holds_alternative<PassingOrder>(proof); }

// Describes the mismatch or the cycle; for a certificate, the number of messages.
std::string to_text(const PipelineSchedule& schedule, const Proof& proof);

// Returns the certificate, or throws BR0838 or BR0839 with the mismatch or the cycle.
PassingOrder require_deadlock_free(const PipelineSchedule& schedule, QueuePolicy policy);

// Empty if the order shows that the schedule completes under the certificate's policy; otherwise what
// contradicts it. Shares only the rules above with the proof.
std::string check_certificate(const PipelineSchedule& schedule, const PassingOrder& certificate);

}  // namespace braid::pipeline
