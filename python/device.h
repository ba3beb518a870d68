// Devices that sessions of CUDA programs run on, and tensors in their memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "runtime/cuda_session.h"

namespace braid::python {

inline constexpr std::int64_t kNoStream = -1;
inline constexpr std::int64_t kLegacyStream = 1;  // CUDA's default stream, of which DLPack says 1, PyTorch 0

// Which memory a session takes and gives.
struct Places {
  int cuda = -1;     // the CUDA device whose memory it takes; -1: of none
  bool host = true;  // host memory is taken; and given, as long as no device memory is asked for with out=
  std::int64_t stream = kNoStream;  // on which device memory is used: DLPack's number
};

// Where a session runs and how, as Program.session() is given it.
struct SessionOptions {
  int threads = 0;     // 0: the default, cores / ranks on this machine
  std::string device;  // CUDA programs: "emulated", "gpu" (this rank's), "gpu:N". Empty for others
  std::int64_t stream = kNoStream;  // the caller's
  bool host = false;                // CUDA programs: take and give host memory beside the device's
};

// "gpu" or "emulated", as a CUDA program runs without being told, and why not on a GPU.
std::pair<std::string, std::string> default_device();
// User error BR0013 if there is no such GPU, BR0003 if it is no device.
void check_device(const std::string& device);

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

}  // namespace braid::python
