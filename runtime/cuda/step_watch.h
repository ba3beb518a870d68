// Notices a step that has begun on the device and does not end: neither CUDA nor NCCL has a time-out.
//
// A stream of its own copies the number of each step to the host, when the step begins and when it is done.
// The communication stream writes the number of the collective that it has reached to the same place: a rank
// whose device hangs is less far than the ranks that wait for it. The host reads the numbers only when it is
// asked, so no thread is needed, and no step waits for a read.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "runtime/cuda/failure.h"

namespace braid::rt::cuda {

// Where a device is in its steps.
struct DevicePlace {
  static constexpr uint64_t kAll = UINT64_MAX;

  uint64_t step = 0;         // the latest that has begun, from 1; 0: none
  uint64_t collectives = 0;  // of that step: those before which nothing is left to do; kAll: the step is done

  bool operator==(const DevicePlace&) const = default;
};

class StepWatch : private Reporter {
 public:
  explicit StepWatch(Failure& failure) : Reporter(failure) {}

  bool make(int64_t timeout_ms);
  // `begins` and `ends` mark the begin and the end of the next step, after the last work on the stream.
  // `announce`, after `ends`, starts watching the step.
  bool begins(cudaStream_t stream);
  bool ends(cudaStream_t stream);
  bool announce();
  // Records that the stream of a step's collectives has reached this one: 0 at the begin of the step, 1
  // before the first, and so on. Called while a step is captured, too.
  void comes_to(uint32_t collective, cudaStream_t communication);
  // Nothing before a step has been announced.
  std::optional<DevicePlace> place() const;
  // Returns whether the device has been within one step for longer than the time-out, since the first look
  // that found it there.
  bool overdue();
  void release();

  cudaStream_t stream() const { return stream_; }

 private:
  static constexpr int kNumbers = 65536;  // of steps; then they begin anew

  // The numbers that the device writes, in pinned memory.
  struct Progress {
    uint16_t begun, done;  // the latest steps
    uint32_t collective;   // of the step that runs
  };
  // The driver's cuStreamWriteValue32.
  using WriteValue = int (*)(cudaStream_t stream, unsigned long long address, uint32_t value, unsigned flags);

  void find_write_value();

  std::chrono::milliseconds timeout_{-1};
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begun_ = nullptr, ended_ = nullptr;
  uint16_t* numbers_ = nullptr;  // on the device: all of them, in order
  Progress* progress_ = nullptr;
  WriteValue write_value_ = nullptr;  // null: the driver has none, and collectives are not counted
  uint64_t enqueued_ = 0;
  int running_ = -1;  // the step that the latest look found running; -1: none
  std::chrono::steady_clock::time_point since_;
};

}  // namespace braid::rt::cuda
