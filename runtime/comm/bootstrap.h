// Ranks are started by launchers that set environment variables, or by this process itself.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/comm/communicator.h"
#include "runtime/comm/paced_link.h"
#include "runtime/comm/shm_world.h"

namespace braid::rt {

// A launcher's description of this process.
struct RankEnvironment {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;    // ranks on this machine
  std::string launcher;  // "torchrun", "Open MPI", "Slurm"; empty: none, this is the only rank
  // The same for all ranks of a run and for no others: the launcher's job id, otherwise the parent process.
  std::string run_id;
  // The same without the parent process: equal on all machines, but not always different for another run.
  std::string job_id;
};

// Reads the variables of torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), Open MPI
// (OMPI_COMM_WORLD_RANK, ...) and Slurm (SLURM_PROCID, ...), in this order. invalid_argument if they
// contradict each other.
Status find_rank_environment(RankEnvironment* out);

// The World of this process as its launcher set it up. All ranks must be on this machine.
Status join_world_from_environment(const WorldOptions& options, std::unique_ptr<World>* out);

// The function that each rank runs. Returns 0 on success, like main.
using RankFunction = std::function<int(World&)>;

struct LaunchOptions {
  WorldOptions world;
  std::optional<LinkPacing> pacing;  // ranks communicate over a paced link
};

// Runs n ranks as threads of this process; returns when all have returned. The error names the ranks that
// returned non-zero or threw.
Status launch_threads(int n, const LaunchOptions& options, const RankFunction& function);

// The same with n child processes made by fork, so this process must have only one thread. The error also
// names children killed by a signal. The call always returns in time: a child that is stopped, or that keeps
// running after the others have failed, is killed after the time-out (rank_processes.h). Children end if this
// process is killed.
Status launch_processes(int n, const LaunchOptions& options, const RankFunction& function);

}  // namespace braid::rt
