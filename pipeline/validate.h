// Whether a schedule is one: every stage and micro-batch forward once and backward once, on the rank that
// owns the stage, each after what it needs on that rank. What only other ranks can decide, whether they wait
// for each other, is left to add_send_recv, step_table and, for good, deadlock_proof.
//
// A schedule without any action and one of a single rank are valid. Stages * micro-batches lie below
// kMostStageMicrobatches.
//
// Members of a container run side by side: none may need another one of the same container.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "pipeline/schedule.h"

namespace braid::pipeline {

// So that four transfers of each, with micro-batches rounded up to a power of two, have 32-bit numbers.
inline constexpr std::int64_t kMostStageMicrobatches = std::int64_t{1} << 27;

struct ValidateOptions {
  enum class Phases {
    either,        // forward only, when there is no backward at all
    training,      // forward and backward
    forward_only,  // inference
  };
  Phases phases = Phases::either;
  // Rows with every SEND and RECV (what add_send_recv returns); otherwise rows without any.
  bool transfers = false;
};

// Throws a user error, BR0830 to BR0836, that names rank, cell and action; cells are counted from 0 as they
// stand in the row, idle ones too, a container as one. Linear.
void validate(const Schedule& schedule, const ValidateOptions& options = {});

// Sizes, placement and the form of the actions alone: what every pass takes for granted. BR0830 to BR0833.
void validate_form(const Schedule& schedule);

// "rank 1, cell 4"; position is that of the cell's first entry in the row.
std::string place(const Schedule& schedule, int rank, std::size_t position);
// "3F0" or "(3F0;2B1)OVERLAP_F_B"
std::string cell_text(const Row& row, std::size_t position);

}  // namespace braid::pipeline
