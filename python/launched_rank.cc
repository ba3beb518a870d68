#include "python/launched_rank.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "ir/error_numbers.h"
#include "runtime/comm/check_environment.h"

namespace braid::python {

void check_environment(bool cuda) {
  if (const rt::Status status = rt::check_environment(cuda); !status.ok())
    ir::user_error(errors::kBadVariable, {}, status.message, "correct or unset the environment variable");
}

rt::RankEnvironment launched_rank(const std::string& dir, int ranks) {
  rt::RankEnvironment environment;
  if (const rt::Status found = rt::find_rank_environment(&environment); !found.ok())
    ir::user_error(errors::kLaunchedRanks, {}, found.message,
                   "start the ranks with mpirun, torchrun or srun");
  if (environment.launcher.empty()) {
    ir::user_error(
        errors::kOnlyLaunched, {.file = dir},
        fmt::format("the program has {} ranks, and no launcher has started this process as one", ranks),
        fmt::format("use program.launch(), or start {} processes with torchrun, mpirun or srun", ranks));
  }
  if (environment.size != ranks) {
    ir::user_error(errors::kLaunchedRanks, {.file = dir},
                   fmt::format("{} started {} ranks, but the program is for {}", environment.launcher,
                               environment.size, ranks),
                   fmt::format("start {} ranks, or compile with ranks={}", ranks, environment.size));
  }
  return environment;
}

}  // namespace braid::python
