// Weighted event simulation of a pipeline schedule: what each rank does when, and why it is idle.
//
//   * A rank takes the cells of its row in order. Computation occupies its one compute stream; SEND and
//     RECV are posted when the row reaches them and take no time there; UNSHARD and REDUCE_GRAD run one
//     after the other on a separate stream. An action begins when its inputs are ready: the message of a
//     RECV, the value of a neighbouring stage on the same rank, the parameters of an UNSHARD. WAIT_SEND and
//     WAIT_REDUCE_GRAD take no time, but the row stops at them until what they wait for is complete.
//   * Transfers begin and arrive by the rules of transfer_queues.h; concurrent work progresses by those of
//     analysis/costs/event_engine.h, which the overlap simulator shares.
//   * If the costs enable contention, k concurrent transfers that leave (or enter) one rank each run at 1/k
//     of their speed; computation during a transfer of its rank takes `slowdown` times as long.
//   * In rows without transfers (compute only), a value of another rank arrives latency + bytes / bandwidth
//     after its action has ended, without a queue; contention applies as well.
//
// Exact in whole picoseconds and deterministic. O(actions x concurrency).
#pragma once

#include <vector>

#include "analysis/costs/time.h"
#include "pipeline/costs.h"
#include "pipeline/queue_policy.h"
#include "pipeline/schedule.h"

namespace braid::pipeline {

// The position and times of a cell. Posting a transfer or freeing parameters takes no time.
struct CellTimes {
  std::size_t position = 0;
  analysis::Time begin, end;
};

struct TransferTimes {
  Action send;
  std::int32_t from = 0, to = 0;  // ranks
  analysis::Time sent, received;  // when the SEND and the RECV were posted
  analysis::Time begin, end;      // on the link
};

// Times of the compute stream of one rank; they add up to the makespan.
struct ComputeStreamTimes {
  analysis::Time busy;
  analysis::Time skew;          // before its first action
  analysis::Time dependency;    // what it waited for did not exist yet or was in transit
  analysis::Time head_of_line;  // its transfer was queued behind others or shared the link
  analysis::Time tail;          // after its last action

  analysis::Time idle() const { return skew + dependency + head_of_line + tail; }
};

struct Simulation {
  analysis::Time makespan;
  PerRank<std::vector<CellTimes>> cells;  // in row order; idle cells are left out
  std::vector<TransferTimes> transfers;   // in order of their begin
  PerRank<ComputeStreamTimes> ranks;

  analysis::Time idle() const;  // of all ranks
};

// Requires a valid schedule (validate.h). Throws BR0862 if ranks wait for each other forever, with what each
// waits for, and BR0863 if the sum of all times overflows 64 bits.
Simulation simulate(const PipelineSchedule& schedule, const PipelineCosts& costs, QueuePolicy policy = {});

}  // namespace braid::pipeline
