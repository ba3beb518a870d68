// What this machine reaches at this moment, measured with small loops: the roof beside which --profile puts kernels.
#pragma once

namespace braid::cli {

struct MeasuredRoof {
  double f32_gflops = 0;  // fused multiply-adds of independent registers, two operations each
  double gb_s = 0;        // reading memory that no cache holds
};

// With this many threads; takes about a fifth of a second.
MeasuredRoof measure_roof(int threads);

}  // namespace braid::cli
