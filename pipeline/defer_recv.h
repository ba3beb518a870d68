// Moves every RECV directly before its consumer: a heuristic of torch.distributed.pipelining (2026) that
// reduces head-of-line waiting and buffers.
//
// On each rank, RECVs are held back. A cell that computes is preceded by the held RECVs that its members
// consume; a SEND to a higher rank is preceded by all held RECVs from that rank. The rest follows at the end.
// Batches stay.
//
// The result may hang or pair the wrong messages: in ZBV and DualPipeV the SENDs and RECVs of a connection
// get different orders, and interleaved 1F1B gets a cycle if both directions share a queue. It is for
// text-to-text tests and for lower(), which emits it only if deadlock_proof.h proves it safe for the channels
// in use. Linear.
#pragma once

#include "pipeline/schedule.h"

namespace braid::pipeline {

// Takes a lowered schedule.
PipelineSchedule defer_recv(const PipelineSchedule& schedule);

}  // namespace braid::pipeline
