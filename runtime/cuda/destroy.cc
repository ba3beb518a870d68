// The end of an instance, which waits for no peer longer than the time-out.
#include "runtime/cuda/core.h"
#include "runtime/cuda/deadline.h"

namespace braid::rt::cuda {

namespace {

// Keeps weights for the rest of the process, because a step may still read them.
void keep(std::vector<std::shared_ptr<DeviceWeights>> weights) {
  static auto& kept = *new std::pair<std::mutex, std::vector<std::vector<std::shared_ptr<DeviceWeights>>>>();
  const std::lock_guard lock(kept.first);
  kept.second.push_back(std::move(weights));
}

}  // namespace

InstanceCore::~InstanceCore() {
  try {
    tear_down();
  } catch (...) {  // out of host memory: what is left stays
  }
}

void InstanceCore::tear_down() {
  constexpr int64_t kTimeoutMs = 600'000;
  const int64_t timeout = timeout_ms_ < 0 ? kTimeoutMs : timeout_ms_;
  (void)cudaSetDevice(device_);
  if (overdue_) give_up();
  // After a failure, peers may have work that never ends because of it, and that reads this rank's segment.
  if (!idle(timeout) || broken_) give_up();
  for (auto& [dims, prepared] : prepared_) prepared->captured.clear();
  if (!idle(timeout)) {
    // Something else delays the step on the device, such as the caller's stream. Freeing memory would wait
    // for it.
    groups_.abort();
    keep(std::move(weights_));
    return;
  }
  if (!gave_up_) segment_.deregister(groups_);
  groups_.destroy(timeout);
  release();
}

// Whether the streams are done, or fail, within the time-out.
bool InstanceCore::idle(int64_t timeout_ms) {
  Deadline deadline(timeout_ms);
  for (cudaStream_t stream : {program_.compute_, program_.communication_, watch_.stream()}) {
    while (stream != nullptr && cudaStreamQuery(stream) == cudaErrorNotReady) {
      if (deadline.over()) return false;
      deadline.pause();
    }
  }
  return true;
}

void InstanceCore::release() {
  const cudaStream_t compute = program_.compute_, communication = program_.communication_;
  prepared_.clear();
  BRAID_FORGET_PLAN(program_.plan_);
  segment_.release();
  weights_.clear();
  products_.release();
  for (void* memory : {static_cast<void*>(program_.arena_), static_cast<void*>(program_.error_flag_)}) {
    if (memory != nullptr) cudaFree(memory);
  }
  if (host_flag_ != nullptr) cudaFreeHost(host_flag_);
  watch_.release();
  profile_.release();
  for (cudaEvent_t event : events_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  for (cudaEvent_t event : {fork_, join_, caller_}) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (compute != nullptr) cudaStreamDestroy(compute);
  if (communication != nullptr) cudaStreamDestroy(communication);
}

}  // namespace braid::rt::cuda
