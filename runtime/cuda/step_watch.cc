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
  BRAID_TRY(cudaHostAlloc(reinterpret_cast<void**>(&progress_), sizeof(Progress), cudaHostAllocDefault));
  *progress_ = {};
  std::vector<uint16_t> numbers(kNumbers);
  std::iota(numbers.begin(), numbers.end(), uint16_t{0});
  BRAID_TRY(cudaMemcpyAsync(numbers_, numbers.data(), kNumbers * sizeof(uint16_t), cudaMemcpyHostToDevice,
                            stream_));
  BRAID_TRY(cudaStreamSynchronize(stream_));
  find_write_value();
  return true;
}

// Gets the function from the runtime, so that programs need not be linked with the driver's library.
void StepWatch::find_write_value() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if defined(BRAID_EMULATED_DEVICE) || CUDART_VERSION >= 12050
  constexpr unsigned kSince = 11070;  // CUDA 11.7
  const cudaError_t e =
      cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &function, kSince, cudaEnableDefault, &found);
#else
  const cudaError_t e = cudaGetDriverEntryPoint("cuStreamWriteValue32", &function, cudaEnableDefault, &found);
#endif
  if (e == cudaSuccess && found == cudaDriverEntryPointSuccess)
    write_value_ = reinterpret_cast<WriteValue>(function);
  else
    (void)cudaGetLastError();
}

void StepWatch::comes_to(uint32_t collective, cudaStream_t communication) {
  constexpr unsigned kNoMemoryBarrier = 1;  // CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER
  if (write_value_ == nullptr) return;
  const auto address = static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(&progress_->collective));
  // A step is right without: a driver or a capture that refuses is not asked again.
  if (write_value_(communication, address, collective, kNoMemoryBarrier) != 0) write_value_ = nullptr;
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
  const uint16_t* number = numbers_ + ++enqueued_ % kNumbers;
  for (int k : {0, 1}) {
    BRAID_TRY(cudaStreamWaitEvent(stream_, k == 0 ? begun_ : ended_, 0));
    BRAID_TRY(cudaMemcpyAsync(k == 0 ? &progress_->begun : &progress_->done, number, sizeof(uint16_t),
                              cudaMemcpyDeviceToHost, stream_));
  }
  return true;
}

std::optional<DevicePlace> StepWatch::place() const {
  if (stream_ == nullptr || enqueued_ == 0) return std::nullopt;
  const uint16_t done = __atomic_load_n(&progress_->done, __ATOMIC_RELAXED);
  const uint16_t begun = __atomic_load_n(&progress_->begun, __ATOMIC_RELAXED);
  const uint32_t collective = __atomic_load_n(&progress_->collective, __ATOMIC_RELAXED);
  const uint64_t step = enqueued_ - static_cast<uint16_t>(enqueued_ - begun);
  return DevicePlace{step, begun == done ? DevicePlace::kAll : collective};
}

bool StepWatch::overdue() {
  if (stream_ == nullptr) return false;
  // The end first: a step that ends between the two looks counts as running until the next look.
  const uint16_t done = __atomic_load_n(&progress_->done, __ATOMIC_RELAXED);
  const uint16_t begun = __atomic_load_n(&progress_->begun, __ATOMIC_RELAXED);
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
