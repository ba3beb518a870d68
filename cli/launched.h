// One rank of several that mpirun, torchrun or Slurm started: then this process runs that rank and no other.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "cli/execute.h"
#include "runtime/comm/bootstrap.h"

namespace braid::cli {

// Nothing where no launcher started several ranks. UserError BR0011 where its variables contradict
// themselves.
std::optional<rt::RankEnvironment> launched();

// "rank 2: " in a launched rank, else nothing: all ranks print to the same place.
std::string rank_prefix();

// An error of a launched rank that has been printed: before it left the World, since mpirun ends the others
// as soon as one has ended.
struct ReportedError : std::runtime_error {
  ReportedError() : std::runtime_error("its error stands above") {}
};

// UserError BR0012 where an environment variable that the ranks of this program read has a value that means
// nothing, or asks for what cannot be had.
void check_environment(const ProgramFiles& program, int ranks);

// UserError BR0011 where the launcher started another number of ranks than the program has, BR0003 where the
// options need all ranks in this process.
void check_launched(const rt::RankEnvironment& environment, const ProgramFiles& program, int ranks,
                    const ExecuteOptions& options);

}  // namespace braid::cli
