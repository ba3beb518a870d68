// The MPI engine: ranks are processes started by mpirun on any number of machines. Built if CMake finds MPI
// (-DBRAID_MPI=AUTO, ON, OFF).
//
// Transfers use MPI's non-blocking collectives on one communicator per group; a thread of each rank drives
// them while the program computes. Reductions are our own (runtime/comm/reduce.h), in member order, so all
// ranks and all engines get the same bits. Before data moves, members exchange what they start: a
// disagreement or a missing rank is an error with names, as with shared memory. Unlike in the shared-memory
// engine, start allocates (staging memory of the collective's size), `group` waits for the other members, and
// mpirun ends the whole job if a rank is killed.
#pragma once

#include <memory>

#include "runtime/comm/communicator.h"

namespace braid::rt {

// The World of this process, one at a time. Calls MPI_Init_thread, and MPI_Finalize when the process exits,
// unless the application has initialised MPI (with MPI_THREAD_SERIALIZED or more; nothing else may call MPI
// while the World lives). After an error MPI_Finalize is not called: it would wait for missing ranks.
Status join_mpi_world(const WorldOptions& options, std::unique_ptr<World>* out);

}  // namespace braid::rt
