// A collective as tests draw it.
#pragma once

#include <cstddef>

#include "runtime/emulated/nccl_api.h"

namespace braid::test {

enum class Kind { kAllReduce, kReduce, kAllGather, kReduceScatter, kBroadcast, kAllToAll, kTransfers };
inline constexpr int kKinds = 7;

// A collective that all ranks draw with the same result.
struct Draw {
  Kind kind;
  size_t count;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  bool in_place = false;
};

inline size_t sent(const Draw& d, size_t ranks) {
  return d.kind == Kind::kReduceScatter || d.kind == Kind::kAllToAll || d.kind == Kind::kTransfers
             ? d.count * ranks
             : d.count;
}
inline size_t received(const Draw& d, size_t ranks) {
  return d.kind == Kind::kAllGather || d.kind == Kind::kAllToAll || d.kind == Kind::kTransfers
             ? d.count * ranks
             : d.count;
}

// `send` and `recv` have the elements above.
template <class T>
ncclResult_t launch(const Draw& d, const T* send, T* recv, ncclDataType_t type, ncclComm_t comm, int ranks,
                    cudaStream_t stream) {
  switch (d.kind) {
    case Kind::kAllReduce:
      return ncclAllReduce(send, recv, d.count, type, d.op, comm, stream);
    case Kind::kReduce:
      return ncclReduce(send, recv, d.count, type, d.op, d.root, comm, stream);
    case Kind::kAllGather:
      return ncclAllGather(send, recv, d.count, type, comm, stream);
    case Kind::kReduceScatter:
      return ncclReduceScatter(send, recv, d.count, type, d.op, comm, stream);
    case Kind::kBroadcast:
      return ncclBroadcast(send, recv, d.count, type, d.root, comm, stream);
    case Kind::kAllToAll:
      return ncclAlltoAll(send, recv, d.count, type, comm, stream);
    case Kind::kTransfers:
      break;
  }
  ncclResult_t result = ncclGroupStart();
  for (int p = 0; p < ranks && result == ncclSuccess; ++p) {
    const size_t at = static_cast<size_t>(p) * d.count;
    result = ncclSend(send + at, d.count, type, p, comm, stream);
    if (result == ncclSuccess) result = ncclRecv(recv + at, d.count, type, p, comm, stream);
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

}  // namespace braid::test
