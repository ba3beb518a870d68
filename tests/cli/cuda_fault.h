// Given to the host compiler with -include: a CUDA program one of whose ranks comes to grief at a call of NCCL's.
//
// BRAID_TEST_NCCL_FAULT=KIND:R:N: at its call number N (from 1) rank R is killed (kill), stopped (stop), does not go on
// (hang), or asks for fewer elements than the others (disagree).
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cuda_program.h"

namespace braid_test_fault {

inline size_t strike(ncclComm_t comm, size_t count) {
  static int calls = 0;
  char kind[16] = "";
  int victim = -1, at = 0, rank = -2;
  const char* fault = getenv("BRAID_TEST_NCCL_FAULT");
  if (fault == nullptr) return count;
  if (sscanf(fault, "%15[a-z]:%d:%d", kind, &victim, &at) != 3) abort();
  ncclCommUserRank(comm, &rank);
  if (++calls != at || rank != victim) return count;
  if (strcmp(kind, "kill") == 0) raise(SIGKILL);
  if (strcmp(kind, "stop") == 0) raise(SIGSTOP);
  while (strcmp(kind, "hang") == 0) pause();
  return count - 1;
}

inline ncclResult_t all_reduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return ncclAllReduce(in, out, strike(comm, count), type, op, comm, stream);
}
inline ncclResult_t reduce_scatter(const void* in, void* out, size_t count, ncclDataType_t type,
                                   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return ncclReduceScatter(in, out, strike(comm, count), type, op, comm, stream);
}
inline ncclResult_t all_gather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                               cudaStream_t stream) {
  return ncclAllGather(in, out, strike(comm, count), type, comm, stream);
}
inline ncclResult_t broadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(in, out, strike(comm, count), type, root, comm, stream);
}
inline ncclResult_t all_to_all(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                               cudaStream_t stream) {
  return ncclAlltoAll(in, out, strike(comm, count), type, comm, stream);
}
inline ncclResult_t send(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t stream) {
  return ncclSend(in, strike(comm, count), type, peer, comm, stream);
}
inline ncclResult_t recv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                         cudaStream_t stream) {
  return ncclRecv(out, strike(comm, count), type, peer, comm, stream);
}

}  // namespace braid_test_fault

#define ncclAllReduce ::braid_test_fault::all_reduce
#define ncclReduceScatter ::braid_test_fault::reduce_scatter
#define ncclAllGather ::braid_test_fault::all_gather
#define ncclBroadcast ::braid_test_fault::broadcast
#define ncclAlltoAll ::braid_test_fault::all_to_all
#define ncclSend ::braid_test_fault::send
#define ncclRecv ::braid_test_fault::recv
