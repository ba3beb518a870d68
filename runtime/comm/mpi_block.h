// MpiWorld::block_until.
#pragma once

#include <chrono>

#include "runtime/comm/mpi_communicator.h"

namespace braid::rt::mpi {

template <class Ready>
bool MpiWorld::block_until(Lock& held, Ready ready) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms_);
  for (int looks = 0;; ++looks) {
    progress();
    if (failed() || ready()) return true;
    if (Clock::now() > deadline) return false;
    held.unlock();
    if (looks < 200) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    held.lock();
  }
}

}  // namespace braid::rt::mpi
