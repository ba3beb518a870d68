// Settings of the emulated device, from the environment or set by a test before the first use.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace braid::emulated {

struct Options {
  int devices = 8;                            // BRAID_EMULATED_DEVICES
  size_t device_bytes = size_t{16} << 30;     // BRAID_EMULATED_MEMORY_MB: cudaMalloc fails above
  std::chrono::milliseconds time_out{20000};  // BRAID_EMULATED_TIMEOUT_MS: until a missing rank is reported
  std::chrono::milliseconds hang{120000};     // BRAID_EMULATED_HANG_MS: until the process gives up on it
  // A pause before each operation of a stream, drawn evenly from [0, max) by a generator seeded per stream.
  std::chrono::microseconds max_delay{0};  // BRAID_EMULATED_DELAY_US
  uint64_t seed = 1;                       // BRAID_EMULATED_SEED
  // One operation at a time: a launch or copy returns when it is done. Collectives stay asynchronous so that
  // one host thread can drive several ranks.
  bool deterministic = false;        // BRAID_EMULATED_DETERMINISTIC
  size_t shared_bytes = 227 * 1024;  // BRAID_EMULATED_SHARED_KB: of a block, after cudaFuncSetAttribute
  int processors = 132;              // multiprocessors: those of an H100, which the device stands for
  bool symmetric = true;  // BRAID_EMULATED_SYMMETRIC: 0: no hardware for it, windows are local registrations
  bool misaligned_pointers =
      true;  // BRAID_EMULATED_MISALIGNED_POINTERS: 0: arrays of pointers as before cuBLASLt 13.1
  bool check_accesses = true;  // BRAID_EMULATED_CHECK: 0 leaves out races and first reads
  // BRAID_EMULATED_COUNT: counts the cost of kernels' accesses (kernel_counts.h)
  bool count_accesses = false;
  bool print_findings = true;  // BRAID_EMULATED_PRINT: to stderr, as they are found
};

// Read from the environment once; a test changes it while no stream exists.
Options& options();

}  // namespace braid::emulated
