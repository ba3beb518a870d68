// The communicator that a host program makes for its ranks. No call waits for a peer without end: the
// communicator is made with `blocking = 0` and its state is polled until the caller gives up; then it is
// aborted.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "runtime/cuda/api.h"

namespace braid::rt::cuda {

class HostComm {
 public:
  using GiveUp = std::function<bool()>;

  HostComm() = default;
  HostComm(const HostComm&) = delete;
  HostComm& operator=(const HostComm&) = delete;

  ncclComm_t get() const { return comm_; }

  // `give_up` is asked again and again. ncclInProgress: it was true.
  ncclResult_t make(int ranks, const ncclUniqueId& id, int rank, const GiveUp& give_up) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t e = ncclCommInitRankConfig(&comm_, ranks, id, rank, &config);
    return e == ncclInProgress || e == ncclSuccess ? settle(give_up) : e;
  }

  // Finalizes and destroys the communicator if `well`, i.e. if all ranks come to this end; otherwise aborts
  // it.
  void release(bool well, const GiveUp& give_up) {
    if (comm_ == nullptr) return;
    if (well) well = finished(ncclCommFinalize(comm_), give_up);
    if (well)
      ncclCommDestroy(comm_);
    else
      ncclCommAbort(comm_);
    comm_ = nullptr;
  }

 private:
  bool finished(ncclResult_t e, const GiveUp& give_up) const {
    return e == ncclSuccess || (e == ncclInProgress && settle(give_up) == ncclSuccess);
  }

  ncclResult_t settle(const GiveUp& give_up) const {
    for (;;) {
      ncclResult_t state = ncclSuccess;
      if (const ncclResult_t e = ncclCommGetAsyncError(comm_, &state); e != ncclSuccess) return e;
      if (state != ncclInProgress || give_up()) return state;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  ncclComm_t comm_ = nullptr;
};

}  // namespace braid::rt::cuda
