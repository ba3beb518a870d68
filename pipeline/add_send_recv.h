// Puts the transfers between neighbouring stages into the rows.
//
// Ranks take turns: in each round every unfinished rank, ascending, looks at its next cell; when what the
// cell needs is in the rank's row already it is appended, and with it, at the same moment, its SEND to this
// row and the matching RECV to the peer's. An idle cell appends nothing and costs a turn, so it moves where
// RECVs land. Between stages of one rank nothing is sent, in neither direction.
//
//   0F0,0B0    ->  0F0,0SEND_F0,0RECV_B0,0B0
//   1F0,1B0        1RECV_F0,1F0,1B0,1SEND_B0
//
// Both ends of a transfer are appended at one instant, so all rows agree with one global order of transfers:
// whatever channels share a queue, they cannot wait for each other. RECVs stand early; defer_recv moves them.
//
// Takes rows that validate accepts, without transfers; UNSHARD, RESHARD and REDUCE_GRAD may be there.
// O(cells): a rank that waits is not looked at until what it waits for is there. Source:
// torch.distributed.pipelining (2024), the same rounds.
#pragma once

#include "pipeline/schedule.h"

namespace braid::pipeline {

// Throws BR0837 when the rows wait for each other: the next cell of each rank and what it needs.
Schedule add_send_recv(const Schedule& schedule);

}  // namespace braid::pipeline
