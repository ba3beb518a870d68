#include <algorithm>
#include <string_view>

#include "runtime/comm/bootstrap.h"
#include "runtime/comm/mpi_world.h"
#include "runtime/comm/process_identity.h"
#include "runtime/comm/settings.h"
#include "runtime/environment.h"

namespace braid::rt {
namespace {

struct Variables {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  std::initializer_list<const char*> run;  // together they distinguish runs,
  std::initializer_list<const char*> job;  // if one of these is set
};

constexpr const char* kSlurmTasksPerNode = "SLURM_STEP_TASKS_PER_NODE";

const Variables kLaunchers[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
     {"TORCHELASTIC_RUN_ID"}},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     kSlurmTasksPerNode,
     {"SLURM_JOB_ID", "SLURM_STEP_ID"},
     {"SLURM_STEP_ID"}},
};

constexpr int64_t kMostRanks = 1'000'000;

// Slurm writes tasks per node as "2", "2(x3)" or "2(x3),1": the most on any machine.
bool read_tasks_per_node(std::string_view text, int64_t* out) {
  *out = 0;
  for (;;) {
    const std::string_view one = text.substr(0, text.find(','));
    int64_t tasks = 0;
    if (!read_number(one.substr(0, one.find('(')), 0, kMostRanks, &tasks)) return false;
    *out = std::max(*out, tasks);
    if (one.size() == text.size()) return true;
    text.remove_prefix(one.size() + 1);
  }
}

// An unset variable leaves *out unchanged.
Status read_count(const char* name, int* out) {
  const char* text = environment_value(name);
  if (text == nullptr) return {};
  int64_t value = 0;
  const bool list = std::string_view(name) == kSlurmTasksPerNode;
  if (list ? !read_tasks_per_node(text, &value) : !read_number(text, 0, kMostRanks, &value)) {
    return Status::error(StatusCode::invalid_argument,
                         wrong_value(name, text, "not a number from 0 to " + std::to_string(kMostRanks)));
  }
  *out = static_cast<int>(value);
  return {};
}

// Ranks on this machine are some of all ranks, and this one is among them.
Status check(const Variables& variables, const RankEnvironment& found) {
  const auto fault = [](const char* name, int value, const char* what, const char* of, int size) {
    return Status::error(StatusCode::invalid_argument, std::string(name) + "=" + std::to_string(value) +
                                                           what + of + "=" + std::to_string(size));
  };
  if (found.size < 1 || found.rank >= found.size)
    return fault(variables.rank, found.rank, " is not a rank of ", variables.size, found.size);
  if (found.local_size < 1 || found.local_size > found.size)
    return fault(variables.local_size, found.local_size, " is no number of ranks among ", variables.size,
                 found.size);
  if (found.local_rank >= found.local_size) {
    const bool given = environment_value(variables.local_size) != nullptr;
    return fault(variables.local_rank, found.local_rank, " is not a rank of ",
                 given ? variables.local_size : variables.size, found.local_size);
  }
  return {};
}

std::string value_of(const char* name) {
  const char* value = environment_value(name);
  return value != nullptr ? value : "";
}

std::string job_id_of(const Variables& variables) {
  std::string id = variables.launcher;
  for (const char* name : variables.run) id += "/" + value_of(name);
  return id;
}

// Two concurrent runs of one user must not meet. A launcher numbers its jobs; without a number, the ranks of
// one run are children of one process.
std::string run_id_of(const Variables& variables) {
  std::string id = job_id_of(variables);
  for (const char* name : variables.job) {
    if (!value_of(name).empty()) return id;
  }
  const ProcessIdentity parent = parent_process();
  if (parent.pid == 0) return id;
  return id + "/children of process " + std::to_string(parent.pid) + ", started at " +
         std::to_string(parent.start_time) + ", namespace " + std::to_string(parent.pid_namespace);
}

}  // namespace

Status find_rank_environment(RankEnvironment* out) {
  *out = {};
  for (const Variables& variables : kLaunchers) {
    if (environment_value(variables.rank) == nullptr || environment_value(variables.size) == nullptr)
      continue;
    RankEnvironment found{.launcher = variables.launcher};
    if (Status read = read_count(variables.rank, &found.rank); !read.ok()) return read;
    if (Status read = read_count(variables.size, &found.size); !read.ok()) return read;
    found.local_rank = found.rank;
    found.local_size = found.size;
    if (Status read = read_count(variables.local_rank, &found.local_rank); !read.ok()) return read;
    if (Status read = read_count(variables.local_size, &found.local_size); !read.ok()) return read;
    if (Status checked = check(variables, found); !checked.ok()) return checked;
    found.run_id = run_id_of(variables);
    found.job_id = job_id_of(variables);
    *out = std::move(found);
    return {};
  }
  return {};
}

Status join_world_from_environment(const WorldOptions& options, std::unique_ptr<World>* out) {
  RankEnvironment environment;
  if (Status found = find_rank_environment(&environment); !found.ok()) return found;
  EngineChoice engine;
  if (Status chosen = engine_choice(&engine); !chosen.ok()) return chosen;
#ifdef BRAID_MPI
  const bool several_machines =
      environment.launcher == "Open MPI" && environment.local_size != environment.size;
  if (engine == EngineChoice::mpi || (engine == EngineChoice::automatic && several_machines))
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
