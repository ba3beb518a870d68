// The time of one kernel on one GPU, predicted from its counts on the emulated device and its machine code. A
// prediction is never a measurement: a text that prints it says so, and names the machine.
//
//   t = (memory^3 + l2^3 + l1^3 + latency^3 + issue^3)^(1/3)
//
//   memory    bytes that DRAM must move, at the bandwidth of a copy
//   l2        sectors that blocks ask L2 for, at its bandwidth
//   l1        lines of global accesses and wavefronts of shared memory, one per cycle and multiprocessor
//   latency   waits of a thread for its loads, one batch after the other; as many threads at once as reside
//   issue     instructions of warps, at the rate of the schedulers
//
// Each of the five may overlap with the others, but not always: their sum would be too much and their maximum
// too little. The norm lies between. docs/cuda.md says what it explains of measured kernels, and what it does
// not.
//
// Left out: the launch, slow paths of divisions, conflicts of L2's slices and of DRAM's pages, the order of
// blocks, and the data that the previous kernel has left in L2.
#pragma once

#include "analysis/costs/gpu_description.h"
#include "analysis/costs/kernel_card.h"

namespace braid::analysis {

// The sum over any number of launches; runtime/emulated/README.md ("Counts") defines the terms.
struct KernelCounts {
  double blocks = 0, threads = 0, barriers = 0;
  double read_intervals = 0, block_sectors = 0;
  double read_bytes = 0, written_bytes = 0;
  double lane_reads = 0, lane_writes = 0;  // global, by threads; atomics are writes
  double read_sectors = 0, write_sectors = 0;
  double lines = 0;       // of global accesses
  double wavefronts = 0;  // of shared memory

  KernelCounts& operator*=(double factor);
};

struct PredictedTime {
  double memory_us = 0, l2_us = 0, l1_us = 0, latency_us = 0, issue_us = 0;
  double us = 0;
};

// Whether a machine states all that a prediction needs.
bool can_predict(const GpuDescription& gpu);

// Returns the time of all launches together. `gpu` must satisfy can_predict.
PredictedTime predicted_time(const KernelCounts& counts, const KernelCard& card, const GpuDescription& gpu);

// The time that DRAM needs for these accesses, whatever the machine code is.
double least_us(const KernelCounts& counts, const GpuDescription& gpu);

}  // namespace braid::analysis
