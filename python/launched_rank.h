// This process as one rank of a program of several, by the variables of torchrun, MPI or Slurm.
#pragma once

#include <string>

#include "runtime/comm/bootstrap.h"

namespace braid::python {

// UserError BR0012 if an environment variable that a session reads has an invalid value.
void check_environment(bool cuda);

// `dir`: the program's folder. User errors BR0012 a variable, BR0011 another number of ranks, BR0734 no launcher.
rt::RankEnvironment launched_rank(const std::string& dir, int ranks);

}  // namespace braid::python
