// The time of one kernel on one GPU, predicted from what it does to memory. A prediction, never a measurement: who prints it
// says so, and names the machine.
//
// Five things take time, each of them at most at the same time as the others: DRAM, L2, shared memory, the instructions, and
// the waits of too few loads in flight. Their sum would be too much and their maximum too little: the third root of the sum of the
// cubes lies between. docs/cuda.md tells what the model explains of the kernels that were measured, and what it does not.
#pragma once

#include <optional>
#include <string>

#include "analysis/costs/gpu_description.h"

namespace braid::analysis {

// Of one launch, or the mean of several. All are counted by the emulated device (runtime/emulated/README.md, "Counts").
struct KernelCounts {
  double blocks = 0, threads = 0;
  double barriers = 0;                         // of blocks
  double read_bytes = 0, written_bytes = 0;    // of DRAM: each byte once
  double reads = 0, global_accesses = 0;       // by warps; reads, and all
  double read_sectors = 0, sectors = 0;        // of 32 bytes that these touch
  double least_sectors = 0;                    // that all of them would touch if no byte was in vain
  double shared_accesses = 0, wavefronts = 0;  // of shared memory
  double least_wavefronts = 0;
  double load_batches = 0;  // of threads: groups of reads in flight together, as the order of the accesses shows it
  double lane_reads = 0;    // reads by threads
};

// Of the same kernel at other sizes: all grows by `factor`. True of kernels whose blocks or turns grow in number; not of those
// whose rows grow, where barriers stay.
KernelCounts scaled(KernelCounts counts, double factor);

// What the machine code of a kernel adds to its counts. Absent: not known.
struct KernelCard {
  std::string name;
  std::optional<double> instructions_per_access;  // of a warp: of its main loop, for each access to global memory
  std::optional<double> loads_in_flight;          // of a thread: reads of the loop before the first use of one
  std::optional<double> threads_in_flight;        // of a multiprocessor, by registers and shared memory
};

struct PredictedTime {
  double memory_us = 0, l2_us = 0, shared_us = 0, latency_us = 0;
  std::optional<double> issue_us;  // absent without a card
  double us = 0;                   // all of them
};

// `card` may be null: then all threads that the hardware has room for are in flight, the loads in flight are those that the order of the
// accesses shows, and the instructions are left out. Without the launch.
PredictedTime predicted_time(const KernelCounts& counts, const KernelCard* card, const GpuDescription& gpu);

// Whether a machine says all that a prediction needs.
bool can_predict(const GpuDescription& gpu);

// Of a product by the matrix library: its operations at the peak or its bytes at the bandwidth, and the launch.
double predicted_product_us(double flops, double bytes, double peak_tflops, double memory_gb_s,
                            double launch_us);

}  // namespace braid::analysis
