// Notices a step that has begun on the device and does not end: neither CUDA nor NCCL has a time-out.
//
// A stream of its own copies the number of each step to the host, when the step begins and when it is done. The host
// looks at the numbers only when it is asked, so that no thread is needed, and no step waits for a look.
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/cuda/failure.h"

namespace braid::rt::cuda {

class StepWatch : private Reporter {
 public:
  explicit StepWatch(Failure& failure) : Reporter(failure) {}

  bool make(int64_t timeout_ms);
  // The next step begins, or ends, with the last work on the stream. After the end, `announce`: then it is watched.
  bool begins(cudaStream_t stream);
  bool ends(cudaStream_t stream);
  bool announce();
  // Whether the device has been within one step for longer than the time-out, since the first look that found it there.
  bool overdue();
  void release();

  cudaStream_t stream() const { return stream_; }

 private:
  static constexpr int kNumbers = 65536;  // of steps; then they begin anew

  std::chrono::milliseconds timeout_{-1};
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begun_ = nullptr, ended_ = nullptr;
  uint16_t* numbers_ = nullptr;  // on the device: all of them, in order
  uint16_t* progress_ =
      nullptr;  // pinned: the number of the latest step that has begun, of the latest that is done
  uint16_t enqueued_ = 0;
  int running_ = -1;  // the step that the latest look found running; -1: none
  std::chrono::steady_clock::time_point since_;
};

}  // namespace braid::rt::cuda
