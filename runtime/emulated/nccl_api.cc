// Collectives and error queries of the emulated NCCL. Communicators are in nccl_communicators.cc, buffers in
// nccl_registration.cc.
#include "runtime/emulated/nccl_api.h"

#include <cstdint>
#include <string>

#include "runtime/emulated/host_thread.h"
#include "runtime/emulated/nccl_data.h"
#include "runtime/emulated/nccl_host.h"

using namespace braid::emulated;

namespace {

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const uintptr_t x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

// A collective may run in place only in the way that NCCL describes; otherwise its buffers must not overlap.
bool buffers_fit(const CollectiveCall& call, const ncclComm& comm) {
  const int ranks = comm.group->size();
  const size_t send_bytes = call.send_bytes(ranks), recv_bytes = call.recv_bytes(ranks);
  if (!overlap(call.send, send_bytes, call.recv, recv_bytes)) return true;
  const char* send = static_cast<const char*>(call.send);
  const char* recv = static_cast<const char*>(call.recv);
  const size_t own = call.count * size_of(call.type) * static_cast<size_t>(comm.rank);
  const CollectiveRow& row = row_of(call.kind);
  if (row.in < row.out) return send == recv + own;
  if (row.in > row.out) return recv == send + own;
  return row.in == braid::rt::Blocks::one && send == recv;
}

ncclResult_t start(CollectiveCall call, ncclComm_t comm, cudaStream_t handle) {
  const std::string name = name_of(call.kind);
  if (const ncclResult_t error = ensure_ready(comm, name); error != ncclSuccess) return error;
  CommGroup& group = *comm->group;
  const std::string who = name + " on " + group.rank_text(comm->rank) + " of " + group.name + ": ";
  if (size_of(call.type) == 0) return refuse(comm, ncclInvalidArgument, who + "unknown data type");
  if (call.root < 0 || call.root >= group.size())
    return refuse(comm, ncclInvalidArgument, who + "there is no rank " + std::to_string(call.root));
  if (row_of(call.kind).reduces && (call.op < ncclSum || call.op > ncclAvg || !reducible(call.type)))
    return refuse(comm, ncclInvalidArgument,
                  who + "the emulated device cannot reduce " + name_of(call.type) + " with operation " +
                      std::to_string(call.op));
  CUstream_st* stream = find_stream(handle);
  if (stream == nullptr) return refuse(comm, ncclInvalidArgument, who + "no such stream");
  if (stream->device.index != comm->device)
    return refuse(comm, ncclInvalidUsage,
                  who + "the stream belongs to device " + std::to_string(stream->device.index) +
                      ", the communicator to device " + std::to_string(comm->device));
  {
    std::lock_guard lock(group.mutex);
    if (comm->life == ncclComm::Life::kRevoked) return fail_group(ncclInvalidUsage);
    if (group.asynchronous_error() != ncclSuccess) {
      comm->last_error = group.asynchronous_text();
      return fail_group(group.error != ncclSuccess ? ncclInvalidUsage : ncclRemoteError);
    }
  }
  if (call.count == 0) return ncclSuccess;
  if (!buffers_fit(call, *comm))
    return refuse(comm, ncclInvalidArgument, who + "send and receive buffers overlap");
  call.label = host_thread().label;
  return submit(comm, call, stream);
}

}  // namespace

extern "C" {

ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return start({CollectiveKind::kAllReduce, send, recv, count, type, op, 0, {}}, comm, stream);
}
ncclResult_t ncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return start({CollectiveKind::kReduce, send, recv, count, type, op, root, {}}, comm, stream);
}
ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return start({CollectiveKind::kAllGather, send, recv, count, type, ncclSum, 0, {}}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return start({CollectiveKind::kReduceScatter, send, recv, count, type, op, 0, {}}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const bool sends = comm != nullptr && comm->rank == root;
  return start({CollectiveKind::kBroadcast, sends ? send : nullptr, recv, count, type, ncclSum, root, {}},
               comm, stream);
}
ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return start({CollectiveKind::kAllToAll, send, recv, count, type, ncclSum, 0, {}}, comm, stream);
}
ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return start({CollectiveKind::kSend, send, nullptr, count, type, ncclSum, peer, {}}, comm, stream);
}
ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return start({CollectiveKind::kRecv, nullptr, recv, count, type, ncclSum, peer, {}}, comm, stream);
}

ncclResult_t ncclGroupStart(void) { return group_start(); }
ncclResult_t ncclGroupEnd(void) { return group_end(); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm == nullptr || error == nullptr) return ncclInvalidArgument;
  *error = look(*comm);
  std::lock_guard lock(comm->group->mutex);
  if (comm->group->asynchronous_error() != ncclSuccess) comm->last_error = comm->group->asynchronous_text();
  if (comm->life == ncclComm::Life::kAborted || comm->life == ncclComm::Life::kDestroyed)
    finding_list().add(FindingKind::kInvalidUse,
                       "ncclCommGetAsyncError of a communicator that is aborted or destroyed, " +
                           comm->group->rank_text(comm->rank) + " of " + comm->group->name);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t comm) { return comm == nullptr ? "" : comm->last_error.c_str(); }

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

}  // extern "C"
