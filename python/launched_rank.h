// This process as one rank of a program of several, by the variables of torchrun, MPI or Slurm.
#pragma once

#include <string>

#include "runtime/comm/bootstrap.h"

namespace braid::python {

// UserError BR0012 if an environment variable that a session reads has an invalid value.
void check_environment(bool cuda);

// `dir` is the program's folder. User errors: BR0012 for a variable, BR0011 for another number of ranks,
// BR0734 without a launcher.
rt::RankEnvironment launched_rank(const std::string& dir, int ranks);

}  // namespace braid::python
