#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "runtime/comm/bootstrap.h"
#ifdef BRAID_MPI
#include "runtime/comm/mpi_world.h"
#endif

namespace braid::rt {
namespace {

struct Variables {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  std::initializer_list<const char*> run;  // together they tell runs apart
};

const Variables kLaunchers[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
};

Status read_number(const char* name, int* out, bool required) {
  const char* text = std::getenv(name);
  if (text == nullptr) {
    return required ? Status::error(StatusCode::invalid_argument, std::string(name) + " is not set")
                    : Status{};
  }
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text, &end, 10);
  // Slurm writes tasks per node as "2" or "2(x3)".
  if (end == text || (*end != '\0' && *end != '(') || errno != 0 || value < 0 || value > 1'000'000) {
    return Status::error(StatusCode::invalid_argument, std::string(name) + "='" + text + "' is not a number");
  }
  *out = static_cast<int>(value);
  return {};
}

}  // namespace

Status find_rank_environment(RankEnvironment* out) {
  *out = {};
  for (const Variables& variables : kLaunchers) {
    if (std::getenv(variables.rank) == nullptr || std::getenv(variables.size) == nullptr) continue;
    RankEnvironment found{.launcher = variables.launcher};
    if (Status read = read_number(variables.rank, &found.rank, true); !read.ok()) return read;
    if (Status read = read_number(variables.size, &found.size, true); !read.ok()) return read;
    found.local_rank = found.rank;
    found.local_size = found.size;
    if (Status read = read_number(variables.local_rank, &found.local_rank, false); !read.ok()) return read;
    if (Status read = read_number(variables.local_size, &found.local_size, false); !read.ok()) return read;
    if (found.size < 1 || found.rank >= found.size) {
      return Status::error(StatusCode::invalid_argument,
                           std::string(variables.rank) + "=" + std::to_string(found.rank) +
                               " is not a rank of " + variables.size + "=" + std::to_string(found.size));
    }
    found.run_id = variables.launcher;
    for (const char* name : variables.run) {
      const char* value = std::getenv(name);
      found.run_id += std::string("/") + (value != nullptr ? value : "");
    }
    *out = std::move(found);
    return {};
  }
  return {};
}

Status join_world_from_environment(const WorldOptions& options, std::unique_ptr<World>* out) {
  RankEnvironment environment;
  if (Status found = find_rank_environment(&environment); !found.ok()) return found;
#ifdef BRAID_MPI
  const char* engine = std::getenv("BRAID_ENGINE");
  const bool asked = engine != nullptr && std::string_view(engine) == "mpi";
  if (asked || (environment.launcher == "Open MPI" && environment.local_size != environment.size))
    return join_mpi_world(options, out);
#endif
  if (environment.local_size != environment.size) {
    return Status::error(StatusCode::invalid_argument,
                         environment.launcher + " started " + std::to_string(environment.size) +
                             " ranks but only " + std::to_string(environment.local_size) +
                             " on this machine: the shared-memory engine serves one machine; build with "
                             "-DBRAID_MPI=ON and start with mpirun for several");
  }
  if (environment.launcher.empty()) {
    SharedMemory memory;
    if (Status made = SharedMemory::create(1, options, &memory); !made.ok()) return made;
    return memory.attach(0, out);
  }
  return join_world(environment.rank, environment.size, environment.run_id, options, out);
}

}  // namespace braid::rt
