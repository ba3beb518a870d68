#include "analysis/costs/kernel_time.h"

#include <algorithm>
#include <cmath>

namespace braid::analysis {
namespace {

constexpr double kSectorBytes = 32, kWarp = 32;

double cube(double x) { return x * x * x; }

double cycles_per_us(const GpuDescription& gpu) {  // of all multiprocessors
  return gpu.clock_mhz.value * gpu.multiprocessors.value;
}

// Per thread, of all threads together.
struct Work {
  double instructions = 0;
  double batches = 0;  // of loads: the next one begins when the one before has come
};

// A thread's accesses between two synchronisations give the number of rounds of a loop. A loop that nvcc has
// unrolled beyond that number of accesses is never entered; accesses that are left over are made one by one.
Work work_of(const KernelCounts& counts, const KernelCard& card) {
  Work work;
  const bool reads = counts.lane_reads > 0;
  const double intervals = reads ? counts.read_intervals : counts.threads;
  const double accesses = (reads ? counts.lane_reads : counts.lane_writes) / intervals;
  const auto in_round = [&](const CardLoop& loop) { return reads ? loop.loads : loop.stores; };
  const CardLoop* tail = nullptr;
  double loops = 0, outside = card.instructions;
  for (const CardLoop& loop : card.loops) {
    outside -= loop.instructions;
    if (loop.tail)
      tail = &loop;
    else if (in_round(loop) > 0)
      ++loops;
  }
  for (const CardLoop& loop : card.loops) {
    if (loop.tail || in_round(loop) == 0) continue;
    const double times = intervals / loops;  // each loop has its share of the intervals
    const double rounds = std::floor(accesses / in_round(loop) + 1e-9),
                 left = accesses - rounds * in_round(loop);
    work.instructions += times * rounds * loop.instructions;
    if (reads) work.batches += times * (rounds * loop.loads / std::max(loop.loads_ahead, 1.0) + left);
    if (tail != nullptr && in_round(*tail) > 0)
      work.instructions += times * left / in_round(*tail) * tail->instructions;
  }
  if (loops == 0 && reads) work.batches = counts.lane_reads / std::max(card.loads_ahead, 1.0);
  // Code with barriers around the loops runs as often as they do, other code once.
  const double turns = card.barriers > 0 ? counts.barriers / counts.blocks / card.barriers : 1;
  work.instructions += outside * counts.threads * std::max(turns, 1.0);
  return work;
}

// Mean wait of a load: DRAM serves it if the launch has not touched the sector before, L2 if the block has
// not, else L1.
double mean_wait_us(const KernelCounts& counts, const GpuDescription& gpu) {
  const double of_dram = std::min(counts.read_bytes / kSectorBytes, counts.read_sectors);
  const double of_l2 = std::clamp(counts.block_sectors, of_dram, counts.read_sectors) - of_dram;
  const double of_l1 = counts.read_sectors - of_dram - of_l2;
  if (counts.read_sectors == 0) return 0;
  return (of_dram * gpu.dram_latency_us->value + of_l2 * gpu.l2_latency_us->value +
          of_l1 * gpu.l1_latency_us->value) /
         counts.read_sectors;
}

}  // namespace

KernelCounts& KernelCounts::operator*=(double factor) {
  for (double* count :
       {&blocks, &threads, &barriers, &read_intervals, &block_sectors, &read_bytes, &written_bytes,
        &lane_reads, &lane_writes, &read_sectors, &write_sectors, &lines, &wavefronts})
    *count *= factor;
  return *this;
}

bool can_predict(const GpuDescription& gpu) {
  return gpu.copy_gb_s && gpu.l2_gb_s && gpu.dram_latency_us && gpu.l2_latency_us && gpu.l1_latency_us;
}

PredictedTime predicted_time(const KernelCounts& counts, const KernelCard& card, const GpuDescription& gpu) {
  PredictedTime t;
  if (counts.threads == 0) return t;
  const Work work = work_of(counts, card);
  const double resident =
      std::min(counts.threads, std::max(card.resident_threads, kWarp) * gpu.multiprocessors.value);
  t.memory_us = (counts.read_bytes + counts.written_bytes) / (gpu.copy_gb_s->value * 1e3);
  t.l2_us = (counts.block_sectors + counts.write_sectors) * kSectorBytes / (gpu.l2_gb_s->value * 1e3);
  t.l1_us = (counts.lines + counts.wavefronts) / (gpu.l1_wavefronts_per_cycle.value * cycles_per_us(gpu));
  t.latency_us = work.batches / resident * mean_wait_us(counts, gpu);
  t.issue_us = work.instructions / kWarp / (gpu.issue_per_cycle.value * cycles_per_us(gpu));
  t.us = std::cbrt(cube(t.memory_us) + cube(t.l2_us) + cube(t.l1_us) + cube(t.latency_us) + cube(t.issue_us));
  return t;
}

double least_us(const KernelCounts& counts, const GpuDescription& gpu) {
  return (counts.read_bytes + counts.written_bytes) / (gpu.copy_gb_s->value * 1e3);
}

}  // namespace braid::analysis
