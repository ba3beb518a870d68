// The MPI engine: ranks are processes that mpirun started, on any number of machines. Built where CMake finds
// MPI (-DBRAID_MPI=AUTO, ON, OFF).
//
// Transfers are MPI's non-blocking collectives, over a communicator per group; a thread of each rank drives
// them while the program computes. Reductions are ours (runtime/comm/reduce.h), in member order, so all ranks
// and all engines get the same bits. Before data moves, members tell each other what they start: a
// disagreement or a missing rank is an error with names, as on shared memory. Differences to the
// shared-memory engine: start allocates (staging memory of the collective's size); `group` waits for the
// other members; a rank that is killed ends the whole job, as mpirun does it.
#pragma once

#include <memory>

#include "runtime/comm/communicator.h"

namespace braid::rt {

// The World of this process. Calls MPI_Init_thread unless the application has (with MPI_THREAD_SERIALIZED or
// more, then nobody else may call MPI while the World lives); MPI_Finalize is then called when the process
// exits. One World at a time. After an error MPI_Finalize is not called: ranks may be missing that it would
// wait for.
Status join_mpi_world(const WorldOptions& options, std::unique_ptr<World>* out);

}  // namespace braid::rt
