// The unit-step table of a lowered schedule: every cell takes one step, whatever it costs.
//
// A cell takes the step after the one before it in its row, a RECV not before its SEND: they may share a
// step. A SEND does not wait for its RECV, messages are told apart by name, not by order, and a rank stands
// still at a RECV: so the table says how a schedule looks, not whether channels can block it
// (deadlock_proof.h says that). A cell that needs something that stands later in its own row, or a RECV whose
// SEND has no step, is a deadlock.
//
// F needs its RECV_F or, on one rank, the F of the stage before; I and B their RECV_B or the I or B of the
// stage after; a SEND its F, I or B; a WAIT_SEND its SEND and, not before it, the RECV of that; a container
// all that its members need. The SENDs of a BATCH_P2P leave in the step in which its rank comes to it, and it
// takes the step of the last SEND that its RECVs meet. Everything else needs nothing.
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
  // Per rank and entry of its row: the step, -1 for idle cells, which take none, and for what never has one.
  // Members of a container have the step of the container.
  std::vector<std::vector<std::int32_t>> step_of;

  // A deadlock: the entry at which each unfinished rank stands. The last step of the table is then the one in
  // which no rank moved.
  struct Waiting {
    int rank = 0;
    std::size_t position = 0;
  };
  std::vector<Waiting> waiting;
  bool deadlock() const { return !waiting.empty(); }
};

struct StepTableOptions {
  // The older simulator: a RECV also takes place when its SEND is merely the next action of the other rank.
  // To reproduce its tables; O(steps * ranks).
  bool peek = false;
};

// Takes rows whose form is valid (validate_form), lowered or not: without transfers only what lies on one
// rank moves.
StepTable step_table(const Schedule& schedule, const StepTableOptions& options = {});

// A row per step, a column per rank:
//           Rank 0   Rank 1
//   Step 0: 0F0
//   Step 1: 0SEND_F0 1RECV_F0
// Steps are padded with zeros, columns with blanks to their widest text, bubbles are blank.
std::string to_text(const Schedule& schedule, const StepTable& table);
// With "<-- ERROR HERE" on the row of one step.
std::string to_text(const Schedule& schedule, const StepTable& table, std::int32_t error_step);

// The partial table and the next cell of each unfinished rank.
std::string deadlock_report(const Schedule& schedule, const StepTable& table);

// The unit-step table with the rule of the simulator before 2024: StepTableOptions::peek.
StepTable step_table_peek(const Schedule& schedule);

}  // namespace braid::pipeline
