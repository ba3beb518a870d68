// Whether a lowered schedule can hang, whatever the ranks' and the network's timing.
//
// How a rank works: it goes through its row. Compute actions (and UNSHARD, RESHARD, REDUCE_GRAD) run one
// after the other; one that consumes a RECV waits for it, and WAIT_SEND for its SEND. A transfer is posted
// into its queue (channels.h) when everything before it in the row that computes or waits is done; nothing
// else waits for a SEND. In a queue one transfer follows the other. A message passes when its SEND and its
// RECV are both at the front of their queues; where the channel buffers K messages, a SEND at the front also
// leaves when fewer than K of its connection (ordered pair of ranks) are under way; the messages of a
// connection leave and arrive in their order, also out of and into one batch. The members of a BATCH_P2P are
// posted together: those of one queue are at its front together; it goes on, what they bring is there and
// what they sent is gone, when all of them are through.
//
// Queues carry no tags: the k-th SEND from a rank to another meets the k-th RECV. So first the SENDs and the
// RECVs of each connection have to stand in the same order; then what waits for what must hold no cycle.
// Waiting is never taken back by timing, therefore every execution gets equally far: one that ends proves
// that all end, and the order in which its messages pass is a certificate that check_certificate holds
// against the schedule without redoing it.
//
// Nothing else in Braid calls a schedule free of deadlock. Linear in the actions.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "pipeline/channels.h"
#include "pipeline/schedule.h"

namespace braid::pipeline {

// An order in which all messages pass, each named by its SEND; with buffers SENDs and RECVs apart.
struct Certificate {
  ChannelPolicy policy;
  std::vector<Action> order;
};

struct PlacedAction {
  int rank = 0;
  std::size_t position = 0;  // entry of the row: the action's, or its container's
  Action action;

  friend bool operator==(const PlacedAction&, const PlacedAction&) = default;
};

// The first message of a connection whose SEND and RECV differ: both would be taken for one another's.
struct ChannelMismatch {
  int from = 0, to = 0;
  std::size_t message = 0;  // of the connection, from 0
  PlacedAction send, recv;  // the message-th of each
};

// `at` stands and cannot go on before `needs`, which is behind the next entry's `at` in a queue or a row; the
// last entry waits for the first.
struct BlockedAction {
  PlacedAction at;
  Action needs;
};
struct RendezvousCycle {
  ChannelPolicy policy;
  std::vector<BlockedAction> blocked;  // shortest
};

using Proof = std::variant<Certificate, ChannelMismatch, RendezvousCycle>;

// Throws what validate (with transfers) throws: a schedule that is none is not proved.
Proof prove_deadlock_free(const Schedule& schedule, ChannelPolicy policy);

inline bool is_safe(const Proof& proof) { return std::holds_alternative<Certificate>(proof); }

// The mismatch or the cycle in words; of a certificate the number of messages.
std::string to_text(const Schedule& schedule, const Proof& proof);

// The certificate, or throws BR0838 or BR0839 with the mismatch or the cycle.
Certificate require_deadlock_free(const Schedule& schedule, ChannelPolicy policy);

// Empty, when the order shows that the schedule ends under the certificate's policy; otherwise what
// contradicts it. Shares nothing with the proof but the rules above.
std::string check_certificate(const Schedule& schedule, const Certificate& certificate);

}  // namespace braid::pipeline
