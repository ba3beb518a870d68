/* One rank of a generated CUDA program, kept open for steps on tensors that are on its device, by a caller
 * that has no CUDA itself, such as the Python package: instance, streams and the device's memory, through
 * functions of the program's own library (runtime/cuda/session.cc). Whole runs from host memory:
 * runtime/cuda_host.h.
 *
 * A session is used by one thread at a time. Each call leaves the thread's current device as it was, and
 * none throws.
 */
#ifndef BRAID_RUNTIME_CUDA_SESSION_H_
#define BRAID_RUNTIME_CUDA_SESSION_H_

#include "runtime/cuda_host.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct BraidCudaSession BraidCudaSession;

typedef struct BraidCudaSessionInfo {
  uint32_t struct_size; /* sizeof(BraidCudaSessionInfo) */
  const BraidCudaProgram* program;
  const void* weights; /* files; may be freed after `open` */
  uint64_t weights_bytes;
  const void* rank_weights;
  uint64_t rank_weights_bytes;
  const BraidCudaHostPeers* peers; /* null: a program with one rank; must outlive the session */
  int32_t device;                  /* negative: peers->local_rank modulo the number of devices */
  void* stream;                    /* a cudaStream_t of the caller, or null: the session makes one */
  int64_t timeout_ms;              /* of a step, and of the ranks' meeting; negative: none */
} BraidCudaSessionInfo;

/* As cudaMemcpyKind. */
typedef enum BraidCudaCopy { BRAID_TO_DEVICE = 1, BRAID_TO_HOST = 2, BRAID_ON_DEVICE = 3 } BraidCudaCopy;

typedef struct BraidCudaSessionCalls {
  uint32_t struct_size; /* sizeof(BraidCudaSessionCalls) */
  /* All ranks of a program must be opened, and closed. BRAID_INVALID_ARGUMENT: a device that is not there,
   * weights of another program. */
  BraidStatus (*open)(const BraidCudaSessionInfo* info, BraidCudaSession** out, char* message,
                      uint64_t message_bytes);
  /* Waits for what is enqueued, and for the other ranks, at most for the time-out. */
  void (*close)(BraidCudaSession* session);
  int32_t (*device)(const BraidCudaSession* session);
  void* (*stream)(const BraidCudaSession* session); /* on which all of the following is enqueued */
  const char* (*last_error)(const BraidCudaSession* session);

  /* As of BraidCudaProgram. After BRAID_BAD_SIZE and BRAID_INVALID_ARGUMENT the session is as before.
   * `done`, if it is not null, is an event of make_event that then stands for the end of the step. */
  BraidStatus (*prepare)(BraidCudaSession* session, const int64_t* dims);
  BraidStatus (*run)(BraidCudaSession* session, const void* const* inputs, void* const* outputs, void* done);
  /* What has gone wrong so far; does not wait. */
  BraidStatus (*status)(BraidCudaSession* session);
  /* Until all that is enqueued is done. */
  BraidStatus (*wait)(BraidCudaSession* session);
  BraidStatus (*copy)(BraidCudaSession* session, void* to, const void* from, uint64_t bytes,
                      BraidCudaCopy kind);
  /* What the session enqueues from now on follows what `stream` has been given so far. */
  BraidStatus (*follow)(BraidCudaSession* session, void* stream);

  /* These need no session and may be called from any thread. Null or not 0: it failed. */
  int (*check_stream)(int32_t device,
                      void* stream); /* whether it is one of the device's; not of numbers at random */
  void* (*allocate)(int32_t device, uint64_t bytes);
  void (*release)(int32_t device, void* memory); /* waits for the device */
  void* (*make_event)(int32_t device);
  void (*release_event)(int32_t device, void* event);
  int (*precede)(int32_t device, void* event,
                 void* stream); /* what `stream` is given from now on follows the event */
  /* Waits for the event, if it is not null, then copies to host memory. */
  int (*read)(int32_t device, void* event, void* to, const void* from, uint64_t bytes);
} BraidCudaSessionCalls;

/* Constant data. */
const BraidCudaSessionCalls* braid_cuda_session_calls(void);

#ifdef __cplusplus
}
#endif

#endif
