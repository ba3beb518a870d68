// What the environment says about communication. A value that means nothing is an error that names the
// variable: nobody is to wait for a time-out other than the one that was asked for. An empty value is none.
#pragma once

#include <cstdint>

#include "runtime/comm/communicator.h"

namespace braid::rt {

inline constexpr int64_t kMaxTimeoutMs = 1'000'000'000'000;  // 30 years

// BRAID_ENGINE: what independent processes talk over; unset: MPI where ranks are on several machines.
enum class EngineChoice : uint8_t { automatic, shm, mpi };
Status engine_choice(EngineChoice* out);

// BRAID_COMM_WORKER: on, off, auto (the same as unset).
Status worker_choice(CommWorker* out);

// The time-out in force: what the options say, else BRAID_TIMEOUT_MS, else 30 s.
Status timeout_in_force(const WorldOptions& options, int64_t* out_ms);

// All of these, for a program that wants to say so before it starts.
Status check_comm_environment();

}  // namespace braid::rt
