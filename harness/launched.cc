#include "harness/launched.h"

#include <fmt/format.h>

#include <cstdio>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/comm/check_environment.h"
#include "runtime/comm/settings.h"

namespace braid::harness {

rt::RankEnvironment rank_environment() {
  rt::RankEnvironment environment;
  if (const rt::Status found = rt::find_rank_environment(&environment); !found.ok())
    ir::user_error(errors::kLaunchedRanks, {}, found.message,
                   "start the ranks with mpirun, torchrun or srun");
  return environment;
}

std::optional<rt::RankEnvironment> launched() {
  rt::RankEnvironment environment = rank_environment();
  if (environment.size < 2) return std::nullopt;
  return environment;
}

int launched_rank() {
  rt::RankEnvironment environment;
  if (!rt::find_rank_environment(&environment).ok() || environment.size < 2) return -1;
  return environment.rank;
}

std::string rank_prefix() {
  const int rank = launched_rank();
  return rank < 0 ? "" : fmt::format("rank {}: ", rank);
}

void as_launched_rank(const std::function<void()>& steps) {
  try {
    steps();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}{}\n", rank_prefix(), error.what());
    throw ReportedError(std::current_exception());
  }
}

void check_environment(bool cuda) {
  if (const rt::Status status = rt::check_environment(cuda); !status.ok())
    ir::user_error(errors::kBadVariable, {}, status.message, "correct or unset the environment variable");
}

void check_environment(const Program& program) {
  check_environment(program.is_cuda());
  const int ranks = program.interface().ranks;
  rt::EngineChoice engine = rt::EngineChoice::automatic;
  (void)rt::engine_choice(&engine);
  if (engine == rt::EngineChoice::mpi && ranks > 1 && !launched()) {
    ir::user_error(errors::kBadVariable, {},
                   "BRAID_ENGINE=mpi requires a launcher, but this process was started without one",
                   fmt::format("start it with: mpirun -n {} braid ...; ranks started by braid itself use "
                               "shared memory",
                               ranks));
  }
}

void check_launched(const rt::RankEnvironment& environment, const Program& program,
                    const ExecuteOptions& options) {
  const int ranks = program.interface().ranks;
  const std::string& shown = program.files().shown;
  if (environment.size != ranks) {
    ir::user_error(errors::kLaunchedRanks, {.file = shown},
                   fmt::format("{} started {} ranks, but the program is for {}", environment.launcher,
                               environment.size, ranks),
                   fmt::format("start {} ranks, or compile with --ranks {}", ranks, environment.size));
  }
  const auto refuse = [&](const std::string& what) {
    ir::user_error(errors::kBadOption, {.file = shown},
                   fmt::format("{} requires all ranks in one process, but {} started only this one", what,
                               environment.launcher),
                   "start braid without a launcher: it starts the ranks itself");
  };
  if (options.ranks_as == RanksAs::threads) refuse("--ranks-as-threads");
  if (options.record || options.profile) refuse("a timeline or profile (--trace, --trace-costs, --profile)");
  if (options.link) refuse("--link");
}

}  // namespace braid::harness
