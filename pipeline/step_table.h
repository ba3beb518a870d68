// The unit-step table of a lowered schedule: every cell takes one step, whatever its cost.
//
// A cell takes the step after its predecessor in the row; a RECV takes the step of its SEND or a later one. A
// SEND does not wait for its RECV, messages are matched by name, not by order, and a rank stops at a RECV. So
// the table shows the shape of a schedule, not whether channels can block it (deadlock_proof.h). It is a
// deadlock if a cell needs something later in its own row, or if the SEND of a RECV has no step.
//
// F needs its RECV_F or, on the same rank, the F of the stage before; I and B need their RECV_B or the I or B
// of the stage after; a SEND needs its F, I or B; a WAIT_SEND needs its SEND and comes no earlier than the
// matching RECV; a container needs everything that its members need. The SENDs of a BATCH_P2P leave in the
// step in which the rank reaches it, and the batch takes the step of the last SEND that its RECVs meet.
// Everything else needs nothing.
//
// O(cells): step(cell) = max(step of the cell before + 1, steps of the SENDs it meets).
// Source: the semantics of torch.distributed.pipelining's simulator (2024), extended to every action.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/schedule.h"

namespace braid::pipeline {

struct StepTable {
  std::int32_t steps = 0;
  // The step of each entry of each rank's row; -1 for idle cells, which take none, and for entries that are
  // never reached. Members of a container have its step.
  PerRank<std::vector<std::int32_t>> step_of;

  // In a deadlock, the entry at which each unfinished rank stands. The last step of the table is then the one
  // in which no rank moved.
  struct Waiting {
    int rank = 0;
    std::size_t position = 0;
  };
  std::vector<Waiting> waiting;
  bool deadlock() const { return !waiting.empty(); }
};

struct StepTableOptions {
  // Reproduces the tables of the older simulator, in which a RECV also proceeds if its SEND is merely the
  // next action of the other rank. O(steps * ranks).
  bool peek = false;
};

// Takes rows whose form is valid (BR0830 to BR0833 of validate.h), lowered or not: without transfers, only
// values within one rank move.
StepTable step_table(const PipelineSchedule& schedule, const StepTableOptions& options = {});

// A row per step, a column per rank:
//           Rank 0   Rank 1
//   Step 0: 0F0
//   Step 1: 0SEND_F0 1RECV_F0
// Steps are padded with zeros, columns with blanks to their widest text, bubbles are blank.
std::string to_text(const PipelineSchedule& schedule, const StepTable& table);
// With "<-- ERROR HERE" on the row of one step.
std::string to_text(const PipelineSchedule& schedule, const StepTable& table, std::int32_t error_step);

// The partial table and the next cell of each unfinished rank.
std::string deadlock_report(const PipelineSchedule& schedule, const StepTable& table);

// The unit-step table with the rule of the simulator before 2024: StepTableOptions::peek.
StepTable step_table_peek(const PipelineSchedule& schedule);

}  // namespace braid::pipeline
