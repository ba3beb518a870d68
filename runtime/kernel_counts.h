// Counts of a program's kernels by the emulated device (runtime/emulated/README.md, "Counts"), for a caller
// that opens the program by name.
#pragma once

#include <cstdint>

// The accesses of one instruction of the program's source, in all launches of its kernel.
struct BraidSiteCounts {
  const char* place;  // "line 12 of model.cu", or an address of the library
  int32_t shared;     // 1: shared memory; 0: global
  int32_t kind;       // 0: reads, 1: writes, 2: atomic accesses
  uint64_t accesses;  // by warps
  uint64_t lanes;     // by threads
  uint64_t bytes;     // of all threads
  uint64_t units;     // sectors of 32 bytes; of shared memory wavefronts
  uint64_t least;     // the fewest that the bytes need
  uint64_t lines;     // lines of 128 bytes; of shared memory 0
};

// One kernel of one node of one rank, in all its launches.
struct BraidKernelCounts {
  uint32_t struct_size;
  int32_t rank;
  int32_t node;  // of the program's table; -1: none
  const char* name;
  const char* label;  // ONNX nodes
  uint64_t launches, blocks, threads;
  uint64_t barriers;        // of blocks
  uint64_t read_intervals;  // of threads: between two synchronisations, with a read of global memory
  uint64_t block_sectors;   // read, each once per block
  uint64_t read_bytes,
      written_bytes;  // of device memory: all of each sector that is touched, once per launch
  const BraidSiteCounts* sites;
  int32_t site_count;
};

extern "C" {
// Counts the accesses of kernels that are enqueued from now on, or no longer.
typedef void (*BraidCountAccesses)(int on);
// Calls `visit` with each kernel's counts and forgets them. Call when nothing runs.
typedef void (*BraidTakeKernelCounts)(void* self, void (*visit)(void* self, const BraidKernelCounts* counts));
}
