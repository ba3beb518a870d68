/* Runs a generated CUDA program from host memory: ranks as threads of one process, each with its own device.
 * For tests and for `braid run`; a program that lives on a device calls runtime/cuda_abi.h itself. Built with
 * the program (runtime/cuda/host_run.cc), so that its caller needs no CUDA.
 */
#ifndef BRAID_RUNTIME_CUDA_HOST_H_
#define BRAID_RUNTIME_CUDA_HOST_H_

#include "runtime/cuda_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Host memory of one rank, in the order of the program's tables and of the sizes for `dims`. */
typedef struct BraidCudaHostRank {
  const void* const* inputs;
  void* const* outputs;
  const void* rank_weights;
  uint64_t rank_weights_bytes;
} BraidCudaHostRank;

typedef struct BraidCudaHostRun {
  uint32_t struct_size; /* sizeof(BraidCudaHostRun) */
  const BraidCudaProgram* program;
  const void* weights;
  uint64_t weights_bytes;
  const BraidCudaHostRank* ranks; /* program->ranks of them */
  const int64_t* dims;
  int32_t steps; /* with the same inputs, without waiting in between, unless a step writes an input, which is
                    then restored */
  int32_t on_own_stream; /* 1: call run without a stream; 0: with the caller's */
  int64_t timeout_ms;    /* of all steps together; negative: none */
  double*
      step_us; /* steps * ranks doubles, rank by rank, or null: the time of each step on its stream, by CUDA's
                      events; the steps then run on the caller's stream */
  void (*progress)(void* user, uint64_t done, uint64_t total); /* as in BraidCudaCreateInfo */
  void* progress_user;
} BraidCudaHostRun;

/* The status of the first rank that failed; its message, with the rank's number, in `message`. */
BraidStatus braid_cuda_host_run(const BraidCudaHostRun* run, char* message, uint64_t message_bytes);

#ifdef __cplusplus
}
#endif

#endif
