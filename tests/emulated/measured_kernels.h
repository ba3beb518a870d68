// Kernels as Braid generated them when bench/gpu/RESULTS.md was measured (4979bdf0): one element per thread, a block per row, threads
// along the output. measured_cards.json has what nvcc makes of the generated ones.
#pragma once

#include <string>

// The share of the measured launch that runs: the whole takes `factor` times as many counts.
struct MeasuredRun {
  const char* error = nullptr;  // null: none
  double factor = 0;
};

// `kernel`: "add", "gelu", "transpose", "row_sum", "column_sum", "softmax" or "layer_norm" of 32,768 rows of 1,024 elements of `type`:
// "f32", "f16" or "bf16". Threads go as often round their loops as in the measured launch, but fewer blocks run.
MeasuredRun run_measured_kernel(const std::string& kernel, const std::string& type);
