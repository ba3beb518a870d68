// A time limit that begins at construction; negative: without end.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace braid::rt::cuda {

class Deadline {
 public:
  explicit Deadline(int64_t timeout_ms) : timeout_(timeout_ms) {}
  bool over() const { return timeout_.count() >= 0 && std::chrono::steady_clock::now() - begin_ > timeout_; }
  // Between two looks: short at first, as most waits are.
  void pause() {
    if (++looks_ < 100)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::chrono::milliseconds timeout_;
  int looks_ = 0;
};

}  // namespace braid::rt::cuda
