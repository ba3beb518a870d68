// What has gone wrong on the device or with a peer, waiting for a step, and the end of an instance.
#include <chrono>
#include <thread>

#include "runtime/cuda/core.h"

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
  if (groups_.healthy()) return true;
  broken_ = true;
  return false;
}

BraidStatus InstanceCore::status() {
  failure_.node = nullptr;
  return broken_ || !healthy() ? failure_.status : BRAID_OK;
}

BraidStatus InstanceCore::synchronize(int64_t timeout_ms) {
  failure_.node = nullptr;
  const auto failed = [&](cudaError_t e) {
    broken_ = true;
    fail(BRAID_LIBRARY_ERROR, std::string("the step failed on the device: ") + cudaGetErrorString(e));
    return failure_.status;
  };
  const cudaStream_t compute = program_.compute_, communication = program_.communication_;
  const auto begin = std::chrono::steady_clock::now();
  // The compute stream ends with everything. Polled, because NCCL reports a lost peer only on request.
  for (;;) {
    const cudaError_t e = cudaStreamQuery(compute);
    if (e == cudaSuccess) {
      overdue_ = false;
      break;
    }
    if (e != cudaErrorNotReady) return failed(e);
    if (!healthy()) return failure_.status;
    const auto waited =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
    if (timeout_ms >= 0 && waited.count() > timeout_ms) {
      overdue_ = true;
      fail(BRAID_COMM_ERROR, "the step is not done after " + std::to_string(timeout_ms) + " ms");
      return failure_.status;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  cudaError_t e = cudaStreamSynchronize(compute);
  if (e == cudaSuccess && !broken_) e = cudaStreamSynchronize(communication);
  return e == cudaSuccess ? status() : failed(e);
}

InstanceCore::~InstanceCore() {
  cudaSetDevice(device_);
  // A lost peer never reaches the kernels and collectives that wait for it. An index out of range stops none.
  if (broken_ || overdue_) segment_.abandon();
  if (overdue_ || (broken_ && failure_.status != BRAID_BAD_INDEX)) groups_.revoke();
  const cudaStream_t compute = program_.compute_, communication = program_.communication_;
  if (compute != nullptr) cudaStreamSynchronize(compute);
  if (communication != nullptr) cudaStreamSynchronize(communication);
  segment_.deregister();
  groups_.destroy();
  prepared_.clear();
  BRAID_FORGET_PLAN(program_.plan_);
  segment_.release();
  weights_.clear();
  products_.release();
  for (void* memory : {static_cast<void*>(program_.arena_), static_cast<void*>(program_.error_flag_)}) {
    if (memory != nullptr) cudaFree(memory);
  }
  if (host_flag_ != nullptr) cudaFreeHost(host_flag_);
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
