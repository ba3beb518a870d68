/* Runs a generated CUDA program from host memory, each rank on a device of its own: ranks as threads of
 * this process, or this process as one of them. For tests and for `braid run`; a program that lives on a
 * device calls runtime/cuda_abi.h itself. Built with the program (runtime/cuda/host_run.cc), so that its
 * caller needs no CUDA.
 */
#ifndef BRAID_RUNTIME_CUDA_HOST_H_
#define BRAID_RUNTIME_CUDA_HOST_H_

#include "runtime/cuda_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Host memory of a rank, in the order of the program's tables and of the sizes for `dims`. Tensors with
 * capacities have all of the memory that these ask for. */
typedef struct BraidCudaHostRank {
  const void* const* inputs;
  void* const* outputs;
  const void* rank_weights;
  uint64_t rank_weights_bytes;
} BraidCudaHostRank;

/* How one rank and the others, in other processes, know of each other (runtime/comm/control_channel.h).
 * Texts are cut to `bytes`. */
typedef struct BraidCudaHostPeers {
  void* user;
  int32_t rank;
  int32_t local_rank; /* among those of this machine: which device it takes */
  /* Gives all ranks the bytes of rank 0. 0: it cannot, and why. */
  int (*broadcast)(void* user, void* data, uint64_t bytes, char* text, uint64_t text_bytes);
  /* How far this rank is: 1 when it is ready for its first step, 2 when it has issued that one, and so on;
   * UINT64_MAX when it has finished. */
  void (*reached)(void* user, uint64_t progress);
  /* How far its device is, as in BraidCudaCreateInfo. */
  void (*device_at)(void* user, uint64_t step, uint64_t collectives);
  /* Waits until all ranks are that far, at most as long as the time-out; negative: for ever. 0: one is
   * lost or late, and which. */
  int (*await_all)(void* user, uint64_t progress, int64_t timeout_ms, char* text, uint64_t bytes);
  /* Whether a rank has ended or failed. Does not wait. */
  int (*lost)(void* user);
  /* As in BraidCudaCreateInfo. Only where ranks are overdue do those count that answer, but are behind, on
   * the host or on their devices. */
  int (*missing)(void* user, int overdue, char* text, uint64_t bytes);
  /* This rank ends with an error; because of others', if `consequence` is not 0. */
  void (*failed)(void* user, const char* text, int consequence);
} BraidCudaHostPeers;

typedef struct BraidCudaHostRun {
  uint32_t struct_size; /* sizeof(BraidCudaHostRun) */
  const BraidCudaProgram* program;
  const void* weights;
  uint64_t weights_bytes;
  const BraidCudaHostRank* ranks;  /* program->ranks of them; with `peers` this rank's alone */
  const BraidCudaHostPeers* peers; /* null: all ranks are threads of this process */
  const int64_t* dims;
  int32_t steps; /* with the same inputs, without waiting in between, unless a step writes an input, which is
                    then restored */
  int32_t on_own_stream; /* 1: call run without a stream; 0: with the caller's */
  /* 1: on the caller's stream, without waiting, each step's inputs are copied to where it reads them, and
   * overwritten behind it, its outputs copied to elsewhere: what a step does before or after its turn is then
   * wrong. Not with on_own_stream or node_costs. */
  int32_t reuses_buffers;
  int64_t timeout_ms; /* of a step, and of the ranks' meeting; negative: none */
  double* step_us;    /* `steps` doubles per rank, or null: the time of each step on its stream, by CUDA's
                            events; the steps then run on the caller's stream */
  BraidCudaNodeCost*
      node_costs; /* steps * node_count per rank, or null: each step is run alone, and profiled */
  void (*progress)(void* user, uint64_t done, uint64_t total); /* as in BraidCudaCreateInfo */
  void* progress_user;
} BraidCudaHostRun;

/* The status of the first rank that failed by itself; in `message` its message, with its number if ranks
 * are threads. */
BraidStatus braid_cuda_host_run(const BraidCudaHostRun* run, char* message, uint64_t message_bytes);

#ifdef __cplusplus
}
#endif

#endif
