#include "analysis/costs/kernel_time.h"

#include <algorithm>
#include <cmath>

namespace braid::analysis {
namespace {

constexpr double kSectorBytes = 32;

double cube(double x) { return x * x * x; }

// The threads of the grid that the machine runs at once.
double resident_threads(const KernelCounts& counts, const KernelCard* card, const GpuDescription& gpu) {
  const double room = card != nullptr && card->threads_in_flight
                          ? std::min(*card->threads_in_flight, gpu.threads.value)
                          : gpu.threads.value;
  return std::clamp(counts.threads, 1.0, room * gpu.multiprocessors.value);
}

// Each thread waits for its batches of loads one after the other, and for the barriers of its block. Loads of bytes that were read before
// find them in a cache, and wait less.
double latency_us(const KernelCounts& counts, const KernelCard* card, const GpuDescription& gpu) {
  if (counts.threads <= 0) return 0;
  const double waves = counts.threads / resident_threads(counts, card, gpu);
  const double batches =
      card != nullptr && card->loads_in_flight ? counts.lane_reads / *card->loads_in_flight : counts.load_batches;
  const double loaded = counts.read_sectors * kSectorBytes;
  const double first = loaded > 0 ? std::min(1.0, counts.read_bytes / loaded) : 1;
  const double wait = first * gpu.dram_latency_us->value + (1 - first) * gpu.hit_latency_us->value;
  const double barriers = counts.blocks > 0 ? counts.barriers / counts.blocks : 0;
  return waves * (batches / counts.threads * wait + barriers * gpu.barrier_us->value);
}

}  // namespace

KernelCounts scaled(KernelCounts counts, double factor) {
  for (double* count :
       {&counts.blocks, &counts.threads, &counts.barriers, &counts.read_bytes, &counts.written_bytes, &counts.reads,
        &counts.global_accesses, &counts.read_sectors, &counts.sectors, &counts.least_sectors,
        &counts.shared_accesses, &counts.wavefronts, &counts.least_wavefronts, &counts.load_batches,
        &counts.lane_reads})
    *count *= factor;
  return counts;
}

bool can_predict(const GpuDescription& gpu) {
  return gpu.copy_gb_s && gpu.l2_gb_s && gpu.dram_latency_us && gpu.hit_latency_us && gpu.barrier_us;
}

PredictedTime predicted_time(const KernelCounts& counts, const KernelCard* card, const GpuDescription& gpu) {
  PredictedTime t;
  const double cycles_per_us = gpu.clock_mhz.value * gpu.multiprocessors.value;  // of all multiprocessors
  t.memory_us = (counts.read_bytes + counts.written_bytes) / (gpu.copy_gb_s->value * 1e3);
  t.l2_us = counts.sectors * kSectorBytes / (gpu.l2_gb_s->value * 1e3);
  t.shared_us = counts.wavefronts / (gpu.l1_wavefronts_per_cycle.value * cycles_per_us);
  t.latency_us = latency_us(counts, card, gpu);
  if (card != nullptr && card->instructions_per_access)
    t.issue_us = counts.global_accesses * *card->instructions_per_access /
                 (gpu.issue_per_cycle.value * cycles_per_us);
  t.us = std::cbrt(cube(t.memory_us) + cube(t.l2_us) + cube(t.shared_us) + cube(t.latency_us) +
                   cube(t.issue_us.value_or(0)));
  return t;
}

double predicted_product_us(double flops, double bytes, double peak_tflops, double memory_gb_s,
                            double launch_us) {
  return std::max(flops / (peak_tflops * 1e6), bytes / (memory_gb_s * 1e3)) + launch_us;
}

}  // namespace braid::analysis
