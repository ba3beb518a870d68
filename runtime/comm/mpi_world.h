// The MPI engine: ranks are processes started by mpirun on any number of machines. It is a library of its
// own, libbraid_mpi.so, built if CMake finds MPI (-DBRAID_MPI=AUTO, ON, OFF) and loaded when it is first
// needed: nothing else of Braid is linked with MPI.
//
// Transfers use MPI's non-blocking collectives on one communicator per group; a thread of each rank drives
// them while the program computes. Reductions are our own (runtime/comm/reduce.h), in member order, so all
// ranks and all engines get the same bits. Before data moves, members exchange headers of what they start: a
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
// Loads the engine. Looks for it beside the library or program that this function is in, in lib/ or ../lib/
// of that folder, or where the system looks for libraries.
Status join_mpi_world(const WorldOptions& options, std::unique_ptr<World>* out);

// The function that libbraid_mpi.so exports, under a name with the version of the interface that both sides
// share (World, WorldOptions, Status).
inline constexpr const char* kMpiEngine = "libbraid_mpi.so";
inline constexpr const char* kJoinMpi = "braid_mpi_join_1";
using JoinMpi = void (*)(const WorldOptions& options, std::unique_ptr<World>* out, Status* status);

}  // namespace braid::rt
