// Weight files on a device. The instances of a process share one copy per device, file and program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/cuda/api.h"
#include "runtime/weight_file.h"

namespace braid::rt::cuda {

// Receives the bytes on the device so far and in all, from any thread.
using UploadProgress = std::function<void(uint64_t done, uint64_t total)>;

class DeviceWeights {
 public:
  explicit DeviceWeights(int device) : device_(device) {}
  DeviceWeights(const DeviceWeights&) = delete;
  DeviceWeights& operator=(const DeviceWeights&) = delete;
  ~DeviceWeights();

  // Returns the copy, on the current device, of a file whose header `head` has been checked. Work enqueued on
  // `stream` later follows the copying. Returns null if a call failed, or if the file is damaged: then *error
  // is cudaSuccess.
  static std::shared_ptr<DeviceWeights> of(const void* file, const WeightFileHeader& head,
                                           cudaStream_t stream, const UploadProgress& progress,
                                           cudaError_t* error);

  char* memory() const { return memory_; }

 private:
  bool upload(const void* file, const WeightFileHeader& head, cudaStream_t stream,
              const UploadProgress& progress, cudaError_t* error);

  const int device_;
  char* memory_ = nullptr;
  cudaEvent_t complete_ = nullptr;
};

}  // namespace braid::rt::cuda
