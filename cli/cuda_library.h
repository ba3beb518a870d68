// The library that `build_emulated` makes from a CUDA program, and its exports.
#pragma once

#include "cli/execute.h"
#include "runtime/cuda_host.h"

namespace braid::cli {

// Returns the program's table; the library stays loaded. UserError BR0008 if it is not a program's library.
const BraidCudaProgram* load_cuda_program(const ProgramFiles& program);
// braid_cuda_host_run of that library.
decltype(&braid_cuda_host_run) load_host_run(const ProgramFiles& program);
// Calls braid_emulated_findings of the emulated device: what its checkers have found since the last call, or
// empty.
std::string take_emulated_findings(const ProgramFiles& program);

}  // namespace braid::cli
