// Starts a program as a child that ends with this process, from a process that may have any number of
// threads.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace braid::rt {

struct RankProgram;

// The child's pid, or -1 with errno. The kernel kills the child when the calling thread ends.
pid_t start_program(const RankProgram& program);

}  // namespace braid::rt
