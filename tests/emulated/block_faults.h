// Kernels of block_faults.cu, kernel_faults.cu and tensor_core_faults.cu: most of them are wrong in one way,
// some in none.
#pragma once

#include <vector>

struct BlockFault {
  const char* name;
  // Launches the kernel. Returns null, or the error of a call. `memory`: kBlockFaultBytes of device memory,
  // all zero.
  const char* (*run)(float* memory, void* stream);
  // The finding's kind, or null if there is nothing to find, and what its text says.
  const char* kind;
  const char* text;
};

constexpr unsigned long kBlockFaultBytes = 1 << 16;

const std::vector<BlockFault>& block_faults();
// The faults of kernel_faults.cu.
const std::vector<BlockFault>& kernel_faults();
// The faults of tensor_core_faults.cu.
const std::vector<BlockFault>& tensor_core_faults();

// Runs one fault. Returns null, or the error of a call.
const char* run_block_fault(const BlockFault& fault);
