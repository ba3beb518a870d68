// The library that `build_emulated` makes of a CUDA program, and what it exports.
#pragma once

#include "cli/execute.h"
#include "runtime/cuda_host.h"

namespace braid::cli {

// The program's table. The library stays loaded. UserError BR0008 where it is none.
const BraidCudaProgram* load_cuda_program(const ProgramFiles& program);
// braid_cuda_host_run of that library.
decltype(&braid_cuda_host_run) load_host_run(const ProgramFiles& program);
// braid_emulated_findings of the device that the library is linked with: what its checkers have found since
// the last call; empty when nothing.
std::string take_emulated_findings(const ProgramFiles& program);

}  // namespace braid::cli
