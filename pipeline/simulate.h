// Weighted event simulation of a pipeline schedule: what each rank does when, and why it is idle.
//
//   * A rank takes the cells of its row in order. Computation occupies its one compute stream; SEND and
//     RECV are posted when the row reaches them and take no time there; UNSHARD and REDUCE_GRAD run one
//     after the other on a stream of their own. An action begins when its inputs are there: the value of a
//     RECV, of a neighbouring stage on the same rank, the parameters of an UNSHARD. WAIT_SEND and
//     WAIT_REDUCE_GRAD take no time, but the row goes on only when what they wait for is complete.
//   * Transfers begin and arrive by the rules of transfer_queues.h; what runs at the same time goes on by
//     those of analysis/costs/event_engine.h, which the overlap simulator shares.
//   * Contention, where the costs ask for it: k transfers that leave (or enter) one rank at a time each go
//     at 1/k of their speed; computation beside a transfer of its rank takes `slowdown` times as long.
//   * Rows without transfers (compute only): a value of another rank arrives latency + bytes / bandwidth
//     after its action has ended, through no queue; contention is charged for all the same.
//
// Exact in whole picoseconds and deterministic. O(actions x what runs at a time).
#pragma once

#include <vector>

#include "analysis/costs/time.h"
#include "pipeline/channels.h"
#include "pipeline/costs.h"
#include "pipeline/schedule.h"

namespace braid::pipeline {

// A cell that took part: position in its row, and when. Posting a transfer or freeing parameters takes no
// time.
struct CellTimes {
  std::uint32_t position = 0;
  analysis::Time begin, end;
};

struct TransferTimes {
  Action send;
  std::int32_t from = 0, to = 0;  // ranks
  analysis::Time sent, received;  // when the SEND and the RECV were posted
  analysis::Time begin, end;      // on the link
};

// Of the compute stream of one rank; they sum up to the makespan.
struct RankTimes {
  analysis::Time busy;
  analysis::Time skew;          // before its first action
  analysis::Time dependency;    // what it waited for did not exist yet, or was on its way
  analysis::Time head_of_line;  // it existed, but its transfer stood behind others or shared the link
  analysis::Time tail;          // after its last action

  analysis::Time idle() const { return skew + dependency + head_of_line + tail; }
};

struct Simulation {
  analysis::Time makespan;
  std::vector<std::vector<CellTimes>> cells;  // per rank, in row order; idle cells are left out
  std::vector<TransferTimes> transfers;       // in the order of their begin
  std::vector<RankTimes> ranks;

  analysis::Time idle() const;  // of all ranks
};

// Throws BR0862, with what each rank waits for, if they wait for each other for ever; BR0863 if the sum of
// all times leaves 64 bits. The schedule is valid (validate.h).
Simulation simulate(const Schedule& schedule, const PipelineCosts& costs, ChannelPolicy policy = {});

}  // namespace braid::pipeline
