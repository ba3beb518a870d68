// Moves every RECV to directly before what consumes it, a heuristic of torch.distributed.pipelining (2026):
// less head-of-line waiting, fewer buffers.
//
// Per rank: each RECV is held; a cell that computes emits the RECVs that its members consume before it; a
// SEND to a peer with a higher rank emits all that are held from that peer before it. The rest follows at the
// end. Batches stay.
//
// The result may hang, or pair the wrong messages: ZBV and DualPipeV get SENDs and RECVs of one connection in
// different orders, interleaved 1F1B a cycle where both directions share a queue. It is for text-to-text
// tests and for lower(), which emits it only when deadlock_proof.h finds it safe for the channels in use.
// Linear.
#pragma once

#include "pipeline/schedule.h"

namespace braid::pipeline {

// Takes a lowered schedule.
Schedule defer_recv(const Schedule& schedule);

}  // namespace braid::pipeline
