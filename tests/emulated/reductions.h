// Entry points of reductions.cu, for its two builds.
#pragma once

constexpr int kMaxReductionThreads = 1024;

struct ReductionResults {
  // Results of each thread of the block.
  float float_sum[kMaxReductionThreads], float_max[kMaxReductionThreads], float_min[kMaxReductionThreads];
  double double_sum[kMaxReductionThreads];
  int int_sum[kMaxReductionThreads], int_max[kMaxReductionThreads], int_min[kMaxReductionThreads];
  // Results of each thread's warp operations.
  float xored[kMaxReductionThreads], up[kMaxReductionThreads], down[kMaxReductionThreads];
  int broadcast[kMaxReductionThreads], half_warp[kMaxReductionThreads];
  unsigned ballot[kMaxReductionThreads];
  int count[kMaxReductionThreads];
};

// The value that thread i brings.
inline float reduction_value(int i) { return static_cast<float>((i * 37 + 11) % 101) * 0.125f - 5.0f; }

// One block of `threads`, a multiple of 32. Null, or what went wrong.
const char* run_reductions(int threads, ReductionResults* results);
