// Kernels as Braid generated them when bench/gpu/RESULTS.md was measured (4979bdf0): one element per thread,
// a block per row, threads along the output. measured_cards.json has nvcc's output for the generated ones.
#pragma once

#include <string>

// A few blocks of a measured launch, whose threads make the accesses that they made there.
struct MeasuredRun {
  const char* error = nullptr;  // null: none
  double factor = 0;            // the whole launch has so many times the counts
  double read_bytes = 0;        // by the whole launch, each byte once: blocks that do not run share sectors
};

// `kernel`: "add", "gelu", "transpose", "row_sum", "column_sum", "softmax" or "layer_norm" of 32,768 rows of
// 1,024 elements of `type`: "f32", "f16" or "bf16".
MeasuredRun run_measured_kernel(const std::string& kernel, const std::string& type);
