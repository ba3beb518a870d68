#include "runtime/cuda/groups.h"

namespace braid::rt::cuda {

bool Groups::make(ncclComm_t world) {
  world_ = world;
  int ranks = 0;
  BRAID_TRY(ncclCommCount(world, &ranks));
  BRAID_TRY(ncclCommUserRank(world, &rank_));
  if (ranks != table_.ranks) {
    return fail(BRAID_INVALID_ARGUMENT, "create: the program is for " + std::to_string(table_.ranks) +
                                            " ranks, but the communicator has " + std::to_string(ranks));
  }
  for (int g = 0; g < table_.group_count; ++g) {
    const BraidGroup& group = table_.groups[g];
    int position = -1;
    bool whole = group.size == ranks;
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
