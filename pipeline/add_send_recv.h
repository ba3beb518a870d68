// Inserts the transfers between neighbouring stages into the rows.
//
// Ranks take turns: in each round every unfinished rank, in ascending order, considers its next cell. If
// everything that the cell needs is already in the rank's row, the cell is appended, its SEND is appended to
// the same row and the matching RECV to the peer's. An idle cell appends nothing and costs a turn, so it
// changes where RECVs land. Stages of the same rank exchange no messages.
//
//   0F0,0B0    ->  0F0,0SEND_F0,0RECV_B0,0B0
//   1F0,1B0        1RECV_F0,1F0,1B0,1SEND_B0
//
// Both ends of a transfer are appended at once, so all rows agree with one global order of transfers: they
// cannot deadlock, whichever channels share a queue. RECVs come early; defer_recv moves them later.
//
// Takes rows without transfers that validate accepts; they may contain UNSHARD, RESHARD and REDUCE_GRAD.
// O(cells): a waiting rank is not visited until what it waits for is there. Source: the rounds of
// torch.distributed.pipelining (2024).
#pragma once

#include "pipeline/schedule.h"

namespace braid::pipeline {

// Throws BR0837 if the rows wait for each other, with the next cell of each rank and what it needs.
PipelineSchedule add_send_recv(const PipelineSchedule& schedule);

}  // namespace braid::pipeline
