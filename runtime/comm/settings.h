// Communication settings from the environment. An invalid value is an error that names the variable, so that,
// say, a mistyped time-out is not silently replaced. An empty value counts as unset.
#pragma once

#include <cstdint>

#include "runtime/comm/communicator.h"

namespace braid::rt {

inline constexpr int64_t kMaxTimeoutMs = 1'000'000'000'000;  // 30 years

// BRAID_ENGINE: how independent processes communicate; unset: MPI if ranks are on several machines.
enum class EngineChoice : uint8_t { automatic, shm, mpi };
Status engine_choice(EngineChoice* out);

// BRAID_COMM_WORKER: on, off, auto (the same as unset).
Status worker_choice(CommWorker* out);

// The effective time-out: that of the options, otherwise BRAID_TIMEOUT_MS, otherwise 30 s.
Status timeout_in_force(const WorldOptions& options, int64_t* out_ms);

// Checks all of these, for programs that report errors before they start.
Status check_comm_environment();

}  // namespace braid::rt
