#include "runtime/cuda/step_watch.h"

#include <numeric>
#include <vector>

namespace braid::rt::cuda {

bool StepWatch::make(int64_t timeout_ms) {
  timeout_ = std::chrono::milliseconds(timeout_ms);
  if (timeout_ms < 0) return true;
  BRAID_TRY(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  for (cudaEvent_t* event : {&begun_, &ended_}) {
    BRAID_TRY(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
  BRAID_TRY(cudaMalloc(reinterpret_cast<void**>(&numbers_), kNumbers * sizeof(uint16_t)));
  BRAID_TRY(cudaHostAlloc(reinterpret_cast<void**>(&progress_), 2 * sizeof(uint16_t), cudaHostAllocDefault));
  progress_[0] = progress_[1] = 0;
  std::vector<uint16_t> numbers(kNumbers);
  std::iota(numbers.begin(), numbers.end(), uint16_t{0});
  BRAID_TRY(cudaMemcpyAsync(numbers_, numbers.data(), kNumbers * sizeof(uint16_t), cudaMemcpyHostToDevice,
                            stream_));
  BRAID_TRY(cudaStreamSynchronize(stream_));
  return true;
}

bool StepWatch::begins(cudaStream_t stream) {
  if (stream_ != nullptr) BRAID_TRY(cudaEventRecord(begun_, stream));
  return true;
}

bool StepWatch::ends(cudaStream_t stream) {
  if (stream_ != nullptr) BRAID_TRY(cudaEventRecord(ended_, stream));
  return true;
}

bool StepWatch::announce() {
  if (stream_ == nullptr) return true;
  ++enqueued_;
  for (int k : {0, 1}) {
    BRAID_TRY(cudaStreamWaitEvent(stream_, k == 0 ? begun_ : ended_, 0));
    BRAID_TRY(cudaMemcpyAsync(progress_ + k, numbers_ + enqueued_, sizeof(uint16_t), cudaMemcpyDeviceToHost,
                              stream_));
  }
  return true;
}

bool StepWatch::overdue() {
  if (stream_ == nullptr) return false;
  const auto number = [&](int k) { return __atomic_load_n(progress_ + k, __ATOMIC_RELAXED); };
  // The end first: a step that ends between the two looks counts as running until the next look.
  const uint16_t done = number(1), begun = number(0);
  const auto now = std::chrono::steady_clock::now();
  if (begun == done) {
    running_ = -1;
  } else if (running_ != begun) {
    running_ = begun;
    since_ = now;
  }
  return running_ >= 0 && now - since_ > timeout_;
}

void StepWatch::release() {
  for (cudaEvent_t event : {begun_, ended_})
    if (event != nullptr) cudaEventDestroy(event);
  if (numbers_ != nullptr) cudaFree(numbers_);
  if (progress_ != nullptr) cudaFreeHost(progress_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
  stream_ = nullptr;
}

}  // namespace braid::rt::cuda
