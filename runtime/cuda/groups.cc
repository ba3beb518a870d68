#include "runtime/cuda/groups.h"

namespace braid::rt::cuda {

bool Groups::join(ncclComm_t world) {
  int ranks = 0;
  BRAID_TRY(ncclCommCount(world, &ranks));
  BRAID_TRY(ncclCommUserRank(world, &rank_));
  if (ranks != table_.ranks) {
    return fail(BRAID_INVALID_ARGUMENT, "create: the program is for " + std::to_string(table_.ranks) +
                                            " ranks, but the communicator has " + std::to_string(ranks));
  }
  world_ = world;
  return true;
}

bool Groups::all_agree(bool good, int* host, int* device, cudaStream_t stream) {
  if (table_.ranks == 1) return good;
  // The lowest rank that cannot go on has the largest number.
  *host = good ? 0 : table_.ranks - rank_;
  BRAID_TRY(cudaMemcpyAsync(device, host, sizeof(int), cudaMemcpyHostToDevice, stream));
  BRAID_TRY(ncclAllReduce(device, device, 1, ncclInt32, ncclMax, world_, stream));
  BRAID_TRY(cudaMemcpyAsync(host, device, sizeof(int), cudaMemcpyDeviceToHost, stream));
  BRAID_TRY(cudaStreamSynchronize(stream));
  if (!good || *host == 0) return good;
  return fail(BRAID_COMM_ERROR, "create: rank " + std::to_string(table_.ranks - *host) +
                                    " cannot begin; its own message says why");
}

bool Groups::make() {
  const ncclComm_t world = world_;
  for (int g = 0; g < table_.group_count; ++g) {
    const BraidGroup& group = table_.groups[g];
    int position = -1;
    bool whole = group.size == table_.ranks;
    for (int k = 0; k < group.size; ++k) {
      if (group.ranks[k] == rank_) position = k;
      whole = whole && group.ranks[k] == k;
    }
    ncclComm_t comm = world;
    if (!whole)
      BRAID_TRY(ncclCommSplit(world, position < 0 ? NCCL_SPLIT_NOCOLOR : 0, position < 0 ? 0 : position,
                              &comm, nullptr));
    comms_.push_back(position < 0 ? nullptr : comm);
    positions_.push_back(position);
    owned_.push_back(!whole && position >= 0);
  }
  return true;
}

void Groups::destroy() {
  for (size_t g = 0; g < comms_.size(); ++g) {
    if (owned_[g]) ncclCommDestroy(comms_[g]);
  }
  comms_.clear();
}

bool Groups::healthy() {
  for (size_t g = 0; g < comms_.size(); ++g) {
    if (comms_[g] == nullptr) continue;
    ncclResult_t result = ncclSuccess;
    BRAID_TRY(ncclCommGetAsyncError(comms_[g], &result));
    if (result == ncclSuccess || result == ncclInProgress) continue;
    return fail(BRAID_COMM_ERROR,
                std::string("group '") + table_.groups[g].name + "': " + ncclGetErrorString(result));
  }
  return true;
}

void Groups::revoke() {
#if NCCL_VERSION_CODE >= 22807
  for (ncclComm_t comm : comms_)
    if (comm != nullptr) ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
#endif
}

}  // namespace braid::rt::cuda
