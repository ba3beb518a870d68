#include "runtime/cuda/groups.h"

#include <algorithm>

#include "runtime/cuda/deadline.h"

namespace braid::rt::cuda {

bool Groups::join(ncclComm_t world, int64_t timeout_ms) {
  timeout_ms_ = timeout_ms;
  int ranks = 0;
  BRAID_TRY(ncclCommCount(world, &ranks));
  BRAID_TRY(ncclCommUserRank(world, &rank_));
  if (ranks != table_.ranks) {
    return fail(BRAID_INVALID_ARGUMENT, "create: the program is for " + std::to_string(table_.ranks) +
                                            " ranks, but the communicator has " + std::to_string(ranks));
  }
  joined_ = true;
  splits_caller_ = true;
  if (!split(world, 0, rank_, &all_)) return false;
  splits_caller_ = false;
  return true;
}

Groups::~Groups() {
  if (splits_caller_) (void)own_.release();
}

bool Groups::all_agree(bool good, int* host, int* device, cudaStream_t stream) {
  if (all_ == nullptr) return good;
  const Failure mine = failure_;
  // The lowest rank that cannot go on has the largest number.
  *host = good ? 0 : table_.ranks - rank_;
  const bool exchanged =
      ok(cudaMemcpyAsync(device, host, sizeof(int), cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync") &&
      done(ncclAllReduce(device, device, 1, ncclInt32, ncclMax, all_, stream), "ncclAllReduce") &&
      wait_for_all(stream) &&
      ok(cudaMemcpyAsync(host, device, sizeof(int), cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync") &&
      ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  if (!good) {
    failure_ = mine;
    return false;
  }
  return exchanged &&
         (*host == 0 || fail(BRAID_COMM_ERROR, "create: rank " + std::to_string(table_.ranks - *host) +
                                                   " cannot begin; its own message says why"));
}

bool Groups::wait_for_all(cudaStream_t stream) {
  Deadline deadline(timeout_ms_);
  for (;;) {
    const cudaError_t e = cudaStreamQuery(stream);
    if (e != cudaErrorNotReady) return ok(e, "cudaStreamQuery");
    if (settled(all_, "create") == std::optional(false)) return false;
    if (others_.lost()) return fail(BRAID_COMM_ERROR, "create cannot be completed");
    if (deadline.over()) {
      if (!others_.known() || !others_.missing(false).empty()) {
        return fail(BRAID_COMM_ERROR,
                    "create is not done on all ranks after " + std::to_string(timeout_ms_) + " ms");
      }
      deadline = Deadline(timeout_ms_);
    }
    deadline.pause();
  }
}

bool Groups::make() {
  for (int g = 0; g < table_.group_count; ++g) {
    const BraidGroup& group = table_.groups[g];
    int part = NCCL_SPLIT_NOCOLOR, position = -1;
    bool whole = group.size == table_.ranks;
    for (int k = 0; k < group.size * group.parts; ++k) {
      if (group.ranks[k] == rank_) {
        part = k / group.size;
        position = k % group.size;
      }
      whole = whole && group.ranks[k] == k;
    }
    ncclComm_t comm = whole ? all_ : nullptr;
    if (comm == nullptr && !split(all_, part, std::max(0, position), &comm)) return false;
    comms_.push_back(comm);
    positions_.push_back(position);
  }
  return true;
}

bool Groups::split(ncclComm_t parent, int color, int key, ncclComm_t* out) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 0;
  ncclComm_t& child = own_->emplace_back(nullptr);
  const ncclResult_t begun = ncclCommSplit(parent, color, key, &child, &config);
  if (begun != ncclSuccess && begun != ncclInProgress) return ok(begun, "ncclCommSplit");
  // Whether the call waits is a property of the parent.
  if (!wait_for(parent, "ncclCommSplit", timeout_ms_)) return false;
  *out = child;
  return child == nullptr || wait_for(child, "ncclCommSplit", timeout_ms_);
}

// Returns whether the communicator's current call has succeeded; nothing if it is not done yet.
std::optional<bool> Groups::settled(ncclComm_t comm, const char* call) {
  ncclResult_t state = ncclSuccess;
  BRAID_TRY(ncclCommGetAsyncError(comm, &state));
  if (state != ncclInProgress) return ok(state, call);
  if (others_.lost()) return fail(BRAID_COMM_ERROR, std::string(call) + " cannot be completed");
  return std::nullopt;
}

bool Groups::wait_for(ncclComm_t comm, const char* call, int64_t timeout_ms) {
  Deadline deadline(timeout_ms);
  for (;;) {
    if (const std::optional<bool> end = settled(comm, call)) return *end;
    if (deadline.over()) {
      return fail(BRAID_COMM_ERROR,
                  std::string(call) + " is not done after " + std::to_string(timeout_ms) + " ms");
    }
    deadline.pause();
  }
}

bool Groups::done(ncclResult_t result, const char* call) {
  // NCCL 2.28's ncclCommWindowRegister says ncclSuccess while the registration is in progress.
  if (result != ncclSuccess && result != ncclInProgress) return ok(result, call);
  return std::all_of(own_->begin(), own_->end(),
                     [&](ncclComm_t comm) { return comm == nullptr || wait_for(comm, call, timeout_ms_); });
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

void Groups::destroy(int64_t timeout_ms) {
  const Failure before = failure_;
  bool good = true;
  for (ncclComm_t comm : *own_) {
    if (comm == nullptr) continue;
    const ncclResult_t begun = ncclCommFinalize(comm);
    good = good && (begun == ncclInProgress || begun == ncclSuccess) &&
           wait_for(comm, "ncclCommFinalize", timeout_ms);
    (void)(good ? ncclCommDestroy(comm) : ncclCommAbort(comm));
  }
  for (ncclComm_t& comm : *own_) comm = nullptr;
  comms_.assign(comms_.size(), nullptr);
  failure_ = before;
}

void Groups::abort() {
  // The first is the parent of the others: once it has ended, no split of it is under way.
  for (ncclComm_t& comm : *own_) {
    if (comm != nullptr) (void)ncclCommAbort(comm);
    comm = nullptr;
  }
  comms_.assign(comms_.size(), nullptr);
}

}  // namespace braid::rt::cuda
