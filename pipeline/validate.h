// Checks that a schedule is valid: each stage and micro-batch has one forward and one backward, on the rank
// that owns the stage, each after what it needs on that rank. Whether ranks wait for each other is left to
// add_send_recv, step_table and, conclusively, deadlock_proof.
//
// A schedule without actions and one with a single rank are valid. Stages * micro-batches must be below
// kMostStageMicrobatches.
//
// Members of a container run concurrently: none may need another one of the same container.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "pipeline/schedule.h"

namespace braid::pipeline {

// Keeps the numbers of four transfers each, with micro-batches rounded up to a power of two, within 32 bits.
inline constexpr std::int64_t kMostStageMicrobatches = std::int64_t{1} << 27;

struct ValidateOptions {
  enum class Phases {
    either,        // forward only if there is no backward at all
    training,      // forward and backward
    forward_only,  // inference
  };
  Phases phases = Phases::either;
  // Rows with every SEND and RECV (what add_send_recv returns); otherwise rows without any.
  bool transfers = false;
};

// Throws a user error, BR0830 to BR0836, that names rank, cell and action. Cells are counted from 0,
// including idle ones; a container is one cell. Linear.
void validate(const PipelineSchedule& schedule, const ValidateOptions& options = {});

// "rank 1, cell 4"; `position` is that of the cell's first entry in the row.
std::string location_text(const PipelineSchedule& schedule, int rank, std::size_t position);
// "3F0" or "(3F0;2B1)OVERLAP_F_B"
std::string cell_text(const Row& row, std::size_t position);

}  // namespace braid::pipeline
