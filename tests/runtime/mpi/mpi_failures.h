// Scenarios of mpi_app in which something goes wrong: every rank checks what it is told.
#pragma once

#include <string>

#include "runtime/comm/communicator.h"

namespace braid::rt::testing {

// False where there is no such scenario. Timeouts of `stall...` and `missing` must be short.
bool run_failure(const std::string& scenario, World& world);

// Rank 2 kills itself while the others are in a collective of this kind, or make a group.
void kill_a_rank(const std::string& kind, World& world);

}  // namespace braid::rt::testing
