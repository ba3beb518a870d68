// Memory of the CUDA device that a session runs on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/cuda_session.h"

namespace braid::harness {

// The device's part in tensors, which outlives sessions.
class TensorDevice {
 public:
  // `event`: of `calls`, or null; stands for the end of the step that wrote the tensors.
  TensorDevice(const BraidCudaSessionCalls& calls, int number, void* event)
      : calls_(calls), number_(number), event_(event) {}
  ~TensorDevice();
  TensorDevice(const TensorDevice&) = delete;
  TensorDevice& operator=(const TensorDevice&) = delete;

  int number() const { return number_; }
  void* event() const { return event_; }
  // Uninitialised memory. rt::ProgramError BR0725 if there is none.
  static std::shared_ptr<void> allocate(const std::shared_ptr<const TensorDevice>& on, std::size_t bytes,
                                        std::shared_ptr<const void> keep);
  // Makes later work on `stream` (DLPack's number) wait until the tensors are written. User error BR0735.
  void precede(std::int64_t stream) const;
  // Waits until the tensors are written. rt::ProgramError BR0725.
  void read(void* to, const void* from, std::size_t bytes) const;

 private:
  const BraidCudaSessionCalls& calls_;
  int number_;
  void* event_;
};

}  // namespace braid::harness
