// CUDA programs for the tests of ranks that are processes, on the emulated device.
#pragma once

#include <string>
#include <vector>

#include "tests/cli/braid_process.h"

namespace braid::test {

// A program with every kind of collective, one after the other: all_reduce, all_gather, reduce_scatter,
// broadcast, all_to_all, and a transfer from rank 0 to rank 1.
std::string cuda_collectives(int ranks);
// A case of `braid test` for two ranks, and its program.
inline const std::string kCudaCase = "collectives/all_reduce_dynamic";
std::vector<std::string> cuda_case_arguments();
std::string cuda_case_program();

// The environment of every command that may build one of them. One rank fails if BRAID_TEST_FAULT (fault.h)
// or BRAID_TEST_NCCL_FAULT (cuda_fault.h) say so.
std::vector<std::string> cuda_environment();
// How ranks are run.
inline const std::vector<std::string> kEmulatedProcesses = {"--device", "emulated", "--ranks-as-processes"};

}  // namespace braid::test
