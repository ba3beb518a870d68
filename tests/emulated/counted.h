// Entry points of counted.cu: kernels with known patterns of accesses.
#pragma once

#include <cstdint>

// Each thread i makes `turns` accesses if bit i % 32 of `active` is set, at element offset + i * stride +
// turn * turn_stride.
struct CountedPattern {
  int bytes = 4;  // of an element: 1, 2, 4, 8 or 16
  int threads = 32;
  int64_t offset = 0, stride = 1, turn_stride = 0;
  int turns = 1;
  unsigned active = 0xffffffffu;
};
constexpr int64_t kCountedElements = 1 << 16;

// Global reads of the pattern; each turn's element is also written to element i of another array.
const char* run_counted_reads(const CountedPattern& pattern);
// Shared writes of the pattern, a barrier, and shared reads of it, by turns with nothing else in shared
// memory.
const char* run_counted_shared(const CountedPattern& pattern);

// A tile of 32 x 32 floats through shared memory whose rows have `row` floats, 32 or 33, by 256 threads:
// columns are read.
const char* run_counted_tile(int row);
// Lanes below 16 read at one place, the others at another.
const char* run_counted_branches();
// Thread i reads two packs of 16 bytes, of which it needs the parts one by one, and writes one.
const char* run_counted_parts();
// Two halves of a warp read an element each, with a warp operation of their own between.
const char* run_counted_halves();
// Every thread adds to the same element, 4 blocks of 64.
const char* run_counted_atomics();
// One warp loads or stores 1, 2 or 4 matrices. Lane i names the row at 16 * place[i] bytes, place[i] < 128.
const char* run_counted_matrices(int matrices, const int* place, bool store);
// Each thread i < 64 copies `bytes` (4, 8 or 16), of which it reads `valid`, from element i * source_stride
// to element i * target_stride of shared memory, an element being `bytes` long.
const char* run_counted_copies(int bytes, int valid, int source_stride, int target_stride);
// As many as this turns of one thread without a barrier.
const char* run_counted_long(int turns);
// 8 blocks, of which each sums a column of 64 rows of 8 floats.
const char* run_counted_columns();
