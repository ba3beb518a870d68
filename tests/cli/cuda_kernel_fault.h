// Given to the host compiler with -include: a CUDA program that launches a faulty kernel before each of its
// own, or leaves out a wait.
//
// BRAID_TEST_KERNEL_FAULT=KIND:R names the fault and the rank that commits it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cuda_program.h"

namespace braid_test_kernel_fault {

inline char kind[16] = "";
inline int victim = -1;
inline float host_values[64] = {};

inline bool planted(const char* fault) {
  static const bool known = [] {
    const char* text = getenv("BRAID_TEST_KERNEL_FAULT");
    return text != nullptr && (sscanf(text, "%15[a-z_]:%d", kind, &victim) == 2 || (abort(), false));
  }();
  int device = -1;
  return known && strcmp(kind, fault) == 0 && cudaGetDevice(&device) == cudaSuccess && device == victim;
}

inline __global__ void planted_read_kernel(const float* in) {
  if (in[threadIdx.x] > 1.0f) __trap();
}
inline __global__ void planted_write_kernel(float* out) { out[threadIdx.x] = 1.0f; }
inline __global__ void planted_trap_kernel() { __trap(); }
inline __global__ void planted_divide_kernel(int by) {
  asm volatile("" : "+r"(by));
  if (100 / by == 1) __trap();
}
inline __attribute__((noinline)) int nested(volatile int* before) {
  volatile int local[64] = {*before};
  return nested(local) + local[0];
}
inline __global__ void planted_nest_kernel() {
  volatile int none = 0;
  nested(&none);
}
inline __global__ void planted_endless_kernel() {
  for (;;) asm volatile("");
}
inline __global__ void planted_barriers_kernel() {
  for (;;) __syncthreads();
}

inline cudaError_t plant(cudaStream_t stream) {
  using braid::rt::cuda::launch;
  float local[64] = {};
  if (planted("heap")) {
    static float* const heap = new float[64]();
    return launch("planted_read_kernel", planted_read_kernel, 1, 64, 0, stream, heap);
  }
  if (planted("stack")) return launch("planted_write_kernel", planted_write_kernel, 1, 64, 0, stream, local);
  if (planted("variable"))
    return launch("planted_write_kernel", planted_write_kernel, 1, 64, 0, stream, host_values);
  if (planted("null"))
    return launch("planted_write_kernel", planted_write_kernel, 1, 64, 0, stream,
                  static_cast<float*>(nullptr));
  if (planted("trap")) return launch("planted_trap_kernel", planted_trap_kernel, 1, 1, 0, stream);
  // The host knows of the fault before it enqueues what follows.
  if (planted("early_trap")) {
    const cudaError_t launched = launch("planted_trap_kernel", planted_trap_kernel, 1, 1, 0, stream);
    usleep(100000);
    return launched;
  }
  if (planted("divide")) return launch("planted_divide_kernel", planted_divide_kernel, 1, 1, 0, stream, 0);
  if (planted("nest")) return launch("planted_nest_kernel", planted_nest_kernel, 1, 1, 0, stream);
  if (planted("endless")) return launch("planted_endless_kernel", planted_endless_kernel, 1, 1, 0, stream);
  if (planted("barriers"))
    return launch("planted_barriers_kernel", planted_barriers_kernel, 1, 64, 0, stream);
  return cudaSuccess;
}

// A program without collectives waits for its caller's stream, and at the end lets it wait.
inline cudaError_t stream_wait_event(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0) {
  thread_local int calls = 0;
  const bool fork = ++calls % 2 == 1;
  if (planted(fork ? "no_fork" : "no_join")) return cudaSuccess;
  return cudaStreamWaitEvent(stream, event, flags);
}

// A global of host code, which ranks that run as threads share.
inline int steps = 0;
inline void count_step() {
  if (getenv("BRAID_TEST_SHARED_COUNTER") != nullptr) ++steps;
}

}  // namespace braid_test_kernel_fault

#define cudaStreamWaitEvent ::braid_test_kernel_fault::stream_wait_event
#undef BRAID_LAUNCH
#define BRAID_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                      \
  (::braid_test_kernel_fault::count_step(),                                               \
   static_cast<void>(static_cast<cudaError_t>(::braid_test_kernel_fault::plant(stream))), \
   ::braid::rt::cuda::launch(#kernel, kernel, grid, block, shared_bytes, stream __VA_OPT__(, ) __VA_ARGS__))
