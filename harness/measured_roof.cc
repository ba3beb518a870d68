#include "harness/measured_roof.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace braid::harness {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

constexpr int kSteps = 4'000'000;
constexpr int kChains = 12;  // enough to hide the latency of an operation

// One thread's multiply-adds with vectors of `Bytes`; returns the operations.
#define BRAID_MULTIPLY_ADDS(NAME, BYTES, TARGET)                                                        \
  __attribute__((target(TARGET), noinline)) double NAME(float seed) {                                   \
    typedef float Vector __attribute__((vector_size(BYTES)));                                           \
    Vector chains[kChains], factor = Vector{} + 0.999f, term = Vector{} + seed;                         \
    for (int c = 0; c < kChains; ++c) chains[c] = term + static_cast<float>(c);                         \
    for (int k = 0; k < kSteps; ++k) {                                                                  \
      _Pragma("GCC unroll 12") for (int c = 0; c < kChains; ++c) chains[c] = chains[c] * factor + term; \
    }                                                                                                   \
    volatile float sink = 0; /* so that it is computed */                                               \
    (void)sink;                                                                                         \
    for (int c = 0; c < kChains; ++c) sink = chains[c][0];                                              \
    return 2.0 * kSteps * kChains * (BYTES / sizeof(float));                                            \
  }

#if defined(__x86_64__)
BRAID_MULTIPLY_ADDS(adds_of_16, 16, "sse2")
BRAID_MULTIPLY_ADDS(adds_of_32, 32, "avx2,fma")
BRAID_MULTIPLY_ADDS(adds_of_64, 64, "avx512f,fma")

double multiply_adds(float seed) {
  if (__builtin_cpu_supports("avx512f")) return adds_of_64(seed);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return adds_of_32(seed);
  return adds_of_16(seed);
}
#else
double multiply_adds(float) { return 0; }  // not known here
#endif

}  // namespace

MeasuredRoof measure_roof(int threads) {
  MeasuredRoof roof;
  // The best of several: others may have the machine for a moment.
  for (int repeat = 0; repeat < 3; ++repeat) {
    double operations = 0;
    const Clock::time_point begin = Clock::now();
#pragma omp parallel num_threads(threads) reduction(+ : operations)
    operations += multiply_adds(1e-3f * static_cast<float>(omp_get_thread_num() + 1));
    roof.f32_gflops = std::max(roof.f32_gflops, operations / seconds_since(begin) / 1e9);
  }
  constexpr std::size_t kWords = std::size_t{256} << 17;  // 256 MiB
  const std::vector<std::uint64_t> memory(kWords, 1);
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::uint64_t sum = 0;
    const Clock::time_point begin = Clock::now();
#pragma omp parallel for num_threads(threads) reduction(+ : sum) schedule(static)
    for (std::size_t k = 0; k < kWords; k += 8) {
      sum += memory[k] + memory[k + 1] + memory[k + 2] + memory[k + 3] + memory[k + 4] + memory[k + 5] +
             memory[k + 6] + memory[k + 7];
    }
    const double seconds = seconds_since(begin);
    volatile std::uint64_t kept = sum;  // so that it is computed
    (void)kept;
    roof.gb_s = std::max(roof.gb_s, static_cast<double>(kWords * sizeof(std::uint64_t)) / seconds / 1e9);
  }
  return roof;
}

}  // namespace braid::harness
