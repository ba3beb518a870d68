// Adds a WAIT_SEND for every SEND, as torch.distributed.pipelining (2026) requires in lowered rows. That of a
// SEND_F follows the backward of the same stage and micro-batch, which needs a gradient that the receiver
// computed from the sent value; all others come at the end of the row, in the order of their SENDs.
//
//   0F0,0SEND_F0,0RECV_B0,0B0     ->  0F0,0SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0
//   1RECV_F0,1F0,1B0,1SEND_B0         1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0
#pragma once

#include "pipeline/schedule.h"

namespace braid::pipeline {

// Takes a lowered schedule without WAIT_SENDs. Linear.
PipelineSchedule add_wait_send(const PipelineSchedule& schedule);

}  // namespace braid::pipeline
