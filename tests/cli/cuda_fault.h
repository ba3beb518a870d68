// Given to the host compiler with -include: a CUDA program with one rank that fails at a call of NCCL's.
//
// BRAID_TEST_NCCL_FAULT=KIND:R:N: at its call number N (from 1) rank R is killed (kill), stopped (stop), does
// not go on (hang), or asks for fewer elements than the others (disagree). With `stall` the host goes on, but
// the device never reaches that call. Call 1 is in `create`: the device then never reaches the first step; at
// call 2 it never reaches the first collective.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cuda_program.h"

namespace braid_test_nccl_fault {

inline char kind[16] = "";
inline int victim = -1, at = 0, calls = 0, rank = -2;
inline bool stalled = false;
inline ncclComm_t latest_comm = nullptr;
inline cudaStream_t latest_stream = nullptr;

inline bool planted() {
  const char* fault = getenv("BRAID_TEST_NCCL_FAULT");
  if (fault != nullptr && victim < 0 && sscanf(fault, "%15[a-z]:%d:%d", kind, &victim, &at) != 3) abort();
  return fault != nullptr;
}

inline size_t strike(ncclComm_t comm, size_t count, cudaStream_t stream) {
  if (!planted()) return count;
  latest_comm = comm;
  latest_stream = stream;
  ncclCommUserRank(comm, &rank);
  if (++calls != at || rank != victim || strcmp(kind, "stall") == 0) return count;
  if (strcmp(kind, "kill") == 0) raise(SIGKILL);
  if (strcmp(kind, "stop") == 0) raise(SIGSTOP);
  while (strcmp(kind, "hang") == 0) pause();
  return count - 1;
}

inline void stall(cudaStream_t stream) {
  if (stalled) return;
  stalled = true;
  cudaLaunchHostFunc(
      stream,
      [](void*) {
        for (;;) pause();
      },
      nullptr);
}

inline bool stalls_at(int call) {
  return planted() && strcmp(kind, "stall") == 0 && rank == victim && at == call && calls == 1;
}

// A step on the instance's own streams begins with an event on the compute stream, for which the
// communication stream waits.
inline cudaError_t event_record(cudaEvent_t event, cudaStream_t stream) {
  if (stalls_at(1)) stall(stream);
  return cudaEventRecord(event, stream);
}
inline cudaError_t stream_wait_event(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0) {
  const cudaError_t e = cudaStreamWaitEvent(stream, event, flags);
  if (stalls_at(2)) stall(stream);
  return e;
}

// Stalls the stream after the collective that precedes call `at`.
inline ncclResult_t group_end() {
  const ncclResult_t e = ncclGroupEnd();
  if (!planted() || strcmp(kind, "stall") != 0 || rank != victim || calls < 2 || calls != at - 1) return e;
  ncclResult_t state = ncclInProgress;
  while (ncclCommGetAsyncError(latest_comm, &state) == ncclSuccess && state == ncclInProgress) usleep(100);
  stall(latest_stream);
  return e;
}

inline ncclResult_t all_reduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return ncclAllReduce(in, out, strike(comm, count, stream), type, op, comm, stream);
}
inline ncclResult_t reduce_scatter(const void* in, void* out, size_t count, ncclDataType_t type,
                                   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return ncclReduceScatter(in, out, strike(comm, count, stream), type, op, comm, stream);
}
inline ncclResult_t all_gather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                               cudaStream_t stream) {
  return ncclAllGather(in, out, strike(comm, count, stream), type, comm, stream);
}
inline ncclResult_t broadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(in, out, strike(comm, count, stream), type, root, comm, stream);
}
inline ncclResult_t all_to_all(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                               cudaStream_t stream) {
  return ncclAlltoAll(in, out, strike(comm, count, stream), type, comm, stream);
}
inline ncclResult_t send(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t stream) {
  return ncclSend(in, strike(comm, count, stream), type, peer, comm, stream);
}
inline ncclResult_t recv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t stream) {
  return ncclRecv(out, strike(comm, count, stream), type, peer, comm, stream);
}

}  // namespace braid_test_nccl_fault

#define cudaEventRecord ::braid_test_nccl_fault::event_record
#define cudaStreamWaitEvent ::braid_test_nccl_fault::stream_wait_event
#define ncclGroupEnd ::braid_test_nccl_fault::group_end
#define ncclAllReduce ::braid_test_nccl_fault::all_reduce
#define ncclReduceScatter ::braid_test_nccl_fault::reduce_scatter
#define ncclAllGather ::braid_test_nccl_fault::all_gather
#define ncclBroadcast ::braid_test_nccl_fault::broadcast
#define ncclAlltoAll ::braid_test_nccl_fault::all_to_all
#define ncclSend ::braid_test_nccl_fault::send
#define ncclRecv ::braid_test_nccl_fault::recv
