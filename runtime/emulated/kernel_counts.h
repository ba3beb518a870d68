// Counts of the kernels' memory accesses since counting began (Options::count_accesses), by kernel and
// instruction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/kernel_counts.h"

namespace braid::emulated {

class AccessCounter;

struct SiteCounts {
  std::string place;  // "line 12 of model.cu"
  bool shared = false;
  int kind = 0;  // 0: reads, 1: writes, 2: atomic accesses
  uint64_t accesses = 0, lanes = 0, bytes = 0, units = 0, least = 0, lines = 0;
};

struct CountedKernel {
  int rank = 0;
  int node = -1;  // of the program's table; -1: none
  std::string name, label;
  auto operator<=>(const CountedKernel&) const = default;
};

struct KernelCounts {
  CountedKernel kernel;
  uint64_t launches = 0, blocks = 0, threads = 0, barriers = 0;
  uint64_t read_intervals = 0, block_sectors = 0, read_bytes = 0, written_bytes = 0;
  std::vector<SiteCounts>
      sites;  // global reads, writes and atomics, then shared ones; in order of the program's code
};

// A launch that is done.
void add_counts(const CountedKernel& launched, AccessCounter& counter);

// Sorted by rank, node, name and label; then forgotten. Complete once all streams are synchronised.
std::vector<KernelCounts> take_kernel_counts();

}  // namespace braid::emulated

extern "C" void braid_emulated_count_accesses(int on);
extern "C" void braid_emulated_take_kernel_counts(void* self, void (*visit)(void*, const BraidKernelCounts*));
