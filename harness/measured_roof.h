// The speed that this machine reaches now, measured with small loops: --profile compares kernels with this
// roof.
#pragma once

namespace braid::harness {

struct MeasuredRoof {
  double f32_gflops = 0;  // fused multiply-adds of independent registers, two operations each
  double gb_s = 0;        // reading memory that no cache holds
};

// With this many threads; takes about a fifth of a second.
MeasuredRoof measure_roof(int threads);

}  // namespace braid::harness
