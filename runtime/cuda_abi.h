/* The C interface of a generated CUDA program: that of runtime/program_abi.h, on a device.
 *
 * A program exports one function, `const BraidCudaProgram* braid_cuda_program_<name>(void)`; everything else
 * is reached from the table it returns, which is constant data. Instances are independent of each other; one
 * instance may be used by one host thread at a time. No call throws. A failing call returns a BraidStatus and
 * leaves a message for last_error.
 *
 * Life of an instance, on the device that is current at create:
 *     create(weights, comm)  ->  [ prepare(dims) -> run(inputs, outputs, stream)* ]*  ->  destroy
 * run only enqueues and allocates nothing, unless it captures a graph; status() and synchronize() report
 * later errors on the device. All ranks of `comm` must make the same calls with the same dims, and create
 * with the same `graphs`.
 *
 * If a peer is lost, one of the calls fails with BRAID_COMM_ERROR after the time-out, and from then on all
 * but destroy do.
 */
#ifndef BRAID_RUNTIME_CUDA_ABI_H_
#define BRAID_RUNTIME_CUDA_ABI_H_

#include "runtime/program_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BRAID_CUDA_ABI_VERSION 9u
#define BRAID_CUDA_ALIGNMENT 16 /* bytes, of the pointers to inputs and outputs */

typedef struct BraidCudaInstance BraidCudaInstance;

/* Weights are copied to the device, once for all instances of a process, and may be freed after create.
 * The caller owns the communicator, of which the instance makes splits of its own: after create it does
 * not use it any more. A field may be null if the program does not need it. */
typedef struct BraidCudaCreateInfo {
  uint32_t abi_version;
  uint32_t struct_size; /* sizeof(BraidCudaCreateInfo) */
  const void* weights;  /* the file weights.bin, in host memory */
  uint64_t weights_bytes;
  const void* rank_weights; /* the file weights.rank<r>.bin */
  uint64_t rank_weights_bytes;
  void* comm; /* ncclComm_t of all ranks of the program */
  /* Null, or told of each piece of a weight file that has reached the device, from any thread. */
  void (*progress)(void* user, uint64_t done, uint64_t total);
  void* progress_user;
  /* Null, or asked when a communicator has failed or, with `overdue` = 1, the device has been within a
   * step for longer than the time-out: returns how many ranks are missing, and writes a text that names
   * them, such as "rank 1 (process 4711 on HOST) has ended"; negative: the others wait for this one, and
   * the text says so. May wait until it is known. */
  int (*missing)(void* user, int overdue, char* text, uint64_t bytes);
  /* Null, or asked again and again while `create` and calls of NCCL wait for other ranks: not 0 if a rank
   * is lost. Does not wait. */
  int (*lost)(void* user);
  /* Null, or told how far the device has come, when run, status or synchronize see that it has changed: it
   * is in step number `step` (from 1), and its work before the first `collectives` collectives of that
   * step is done; UINT64_MAX: all of the step is. The ranks of a step that hangs wait for those that are
   * least far. */
  void (*device_at)(void* user, uint64_t step, uint64_t collectives);
  void* missing_user; /* of these three */
  /* How long a step may take on the device, a call of NCCL on the host, and destroy, before peers count as
   * lost. 0: BRAID_TIMEOUT_MS, otherwise 10 minutes; negative: for ever, but destroy waits 10 minutes. */
  int64_t timeout_ms;
  /* CUDA graphs of steps whose dims recur. 1: on, -1: off, 0: as BRAID_CUDA_GRAPHS says (0 or 1),
   * otherwise on. */
  int32_t graphs;
} BraidCudaCreateInfo;

/* What a node of a step costs (profile). */
typedef struct BraidCudaNodeCost {
  double us;        /* on the device, by CUDA's events; no time on the emulated device */
  int64_t launches; /* of kernels, matrix products and groups of collectives */
} BraidCudaNodeCost;

typedef struct BraidCudaProgram {
  uint32_t abi_version;
  uint32_t struct_size; /* sizeof(BraidCudaProgram) */
  const char* name;
  uint64_t compilation_id; /* hash of source and weights; weight files, manifest and library carry it */
  int32_t ranks;

  int32_t dim_count;
  const BraidDim* dims;
  int32_t input_count;
  const BraidTensorInfo* inputs;
  int32_t output_count;
  const BraidTensorInfo* outputs;

  uint64_t arena_bytes;
  uint64_t comm_bytes;
  uint64_t weights_bytes;      /* of weights.bin; 0: there is none */
  uint64_t rank_weights_bytes; /* of each weights.rank<r>.bin; 0: there are none */

  int32_t group_count;
  const BraidGroup* groups;
  int32_t node_count;
  const BraidNode*
      nodes; /* kernels and collectives (BRAID_NODE_BLOCKING), in the order in which a step enqueues them */

  /* Computes every size of every input, then of every output, for the given dimensions. */
  void (*sizes)(const int64_t* dims, int64_t* out);
  /* The text of a relation between dimensions within their bounds that the program assumes and that does
   * not hold; null: all hold, and sizes may be computed. Null if there are none. prepare checks them as
   * well. */
  const char* (*broken_guard)(const int64_t* dims);

  BraidStatus (*create)(const BraidCudaCreateInfo* info, BraidCudaInstance** out);
  /* Makes and remembers what depends on the actual sizes. May allocate and wait for the device. */
  BraidStatus (*prepare)(BraidCudaInstance* instance, const int64_t* dims);
  /* Device pointers, multiples of BRAID_CUDA_ALIGNMENT, in the order of `inputs` and `outputs`; inputs are
   * read only, except those marked as `written`. The step follows the work enqueued on `stream` (a
   * cudaStream_t) before, and precedes what is enqueued later. Null: the program's own stream; follow with
   * synchronize. Neither is ever the default stream. */
  BraidStatus (*run)(BraidCudaInstance* instance, const void* const* inputs, void* const* outputs,
                     void* stream);
  /* Does not wait: BRAID_OK, or what has gone wrong so far in any step. */
  BraidStatus (*status)(BraidCudaInstance* instance);
  /* Waits until all steps are done, at most timeout_ms (negative: forever); then returns status. */
  BraidStatus (*synchronize)(BraidCudaInstance* instance, int64_t timeout_ms);
  /* From now on the nodes of a step run one after the other and without graphs, and a synchronize that
   * succeeds writes what those of the latest step have cost: node_count entries; copies of outputs at the
   * end count with the last node. Null: no longer. Not within a step; all ranks alike. */
  BraidStatus (*profile)(BraidCudaInstance* instance, BraidCudaNodeCost* costs);
  /* The message of the last failed call on this instance or, for null, of the last failed create on this
   * thread. */
  const char* (*last_error)(const BraidCudaInstance* instance);
  void (*destroy)(BraidCudaInstance* instance);
} BraidCudaProgram;

typedef const BraidCudaProgram* (*BraidCudaProgramFunction)(void);

#ifdef __cplusplus
}
#endif

#endif
