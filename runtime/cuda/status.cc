// Errors of the device or of a peer, and waiting for a step.
#include "runtime/cuda/core.h"
#include "runtime/cuda/deadline.h"

namespace braid::rt::cuda {

// False once a step has failed on the device.
bool InstanceCore::healthy() {
  const int flag = __atomic_load_n(host_flag_, __ATOMIC_RELAXED);  // a copy may be writing it
  if (flag != 0) {
    const int site = 0x7fffffff - flag;
    broken_ = true;
    failure_.node = site >= 0 && site < layout_.index_site_count ? layout_.index_sites[site] : nullptr;
    return fail(BRAID_BAD_INDEX, "an index is out of range");
  }
  if (const auto place = watch_.place(); place && place != told_place_) {
    told_place_ = place;
    others_.tell(*place);
  }
  const bool connected = groups_.healthy();
  if (connected && !watch_.overdue()) return true;
  if (connected) {
    fail(BRAID_COMM_ERROR,
         "a step is not done " + std::to_string(timeout_ms_) + " ms after the device has begun it");
  }
  broken_ = true;
  return lost_peer(connected);
}

namespace {

// Returns whether a kernel of this rank has failed, after which NCCL's calls fail as well: an illegal address
// (700), a launch that took too long (702), an assertion (710), and from 714 to 719 errors of the stack, of
// instructions, of alignment and unspecified ones.
bool is_fault(cudaError_t e) { return e == 700 || e == 702 || e == 710 || (e >= 714 && e <= 719); }

}  // namespace

// Called after a failure. If peers are its cause, names the missing ones, and gives up the work that waits
// for them. Returns false. `overdue`: the reason is that the device takes too long.
bool InstanceCore::lost_peer(bool overdue) {
  if (failure_.status != BRAID_COMM_ERROR) return false;
  if (const cudaError_t own = cudaPeekAtLastError(); is_fault(own))
    fail(status_of(own), std::string("the step failed on the device: ") + cudaGetErrorString(own));
  else
    failure_.message += others_.missing(overdue);
  give_up();
  return false;
}

// Ends all waits for peers. Enqueued work runs to its end, on data that means nothing.
void InstanceCore::give_up() {
  if (gave_up_) return;
  gave_up_ = true;
  BRAID_ABANDON_PLAN(program_.plan_);
  segment_.abandon();
  // NCCL ends no communicator that a graph refers to.
  for (auto& [dims, prepared] : prepared_) prepared->captured.clear();
  groups_.abort();
}

BraidStatus InstanceCore::thrown(BraidStatus status, const char* function, const char* why) noexcept {
  broken_ = true;
  failure_.status = status;
  try {
    failure_.message = std::string(function) + ": " + why;
  } catch (...) {
    failure_.message.clear();
  }
  return status;
}

BraidStatus InstanceCore::status() {
  failure_.node = nullptr;
  return broken_ || !healthy() ? failure_.status : BRAID_OK;
}

BraidStatus InstanceCore::synchronize(int64_t timeout_ms) {
  failure_.node = nullptr;
  const auto failed = [&](cudaError_t e) {
    broken_ = true;
    if (!is_fault(e) && !groups_.healthy()) {
      (void)lost_peer();
      return failure_.status;
    }
    fail(status_of(e), std::string("the step failed on the device: ") + cudaGetErrorString(e));
    return failure_.status;
  };
  if (gave_up_) return failure_.status;
  const cudaStream_t compute = program_.compute_, communication = program_.communication_;
  Deadline deadline(timeout_ms);
  // Nothing else watches the enqueued work of a step that failed midway.
  const Deadline rest(broken_ ? timeout_ms_ : -1);
  // The compute stream ends with everything. Polled, because NCCL reports a lost peer only on request.
  for (;;) {
    const cudaError_t e = cudaStreamQuery(compute);
    if (e == cudaSuccess) break;
    if (e != cudaErrorNotReady) return failed(e);
    if (rest.over()) give_up();
    if (gave_up_ || !healthy()) return failure_.status;
    if (deadline.over()) {
      overdue_ = true;
      const std::string missing = others_.missing(false);
      // Ranks that are threads name no missing ones: each tells its own error.
      if (missing.empty() && !others_.lost()) {  // it may still be done
        fail(BRAID_COMM_ERROR, "the step is not done after " + std::to_string(timeout_ms) + " ms");
      } else {
        fail(BRAID_COMM_ERROR, "the step cannot be completed" + missing);
        broken_ = true;
        give_up();
      }
      return failure_.status;
    }
    deadline.pause();
  }
  overdue_ = false;
  cudaError_t e = cudaStreamSynchronize(compute);
  if (e == cudaSuccess && !broken_) e = cudaStreamSynchronize(communication);
  if (e != cudaSuccess) return failed(e);
  const BraidStatus now = status();
  return now != BRAID_OK || !profile_.on() || profile_.write() ? now : failure_.status;
}

BraidStatus InstanceCore::profile(BraidCudaNodeCost* costs) {
  failure_.node = nullptr;
  const bool good =
      !broken_ && ok(cudaSetDevice(device_), "cudaSetDevice") && profile_.start(costs, table_.node_count);
  return good ? BRAID_OK : failure_.status;
}

}  // namespace braid::rt::cuda
