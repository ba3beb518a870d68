// Independent calls on several threads, for searches whose results must not depend on how many there are.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace braid::ir {

// Calls call(0) to call(count - 1) on at most `threads` threads, this one included; on fewer if the system
// starts no more. If some throw, rethrows the exception of the lowest number after all calls.
template <class Call>
void parallel_for(std::size_t count, std::size_t threads, const Call& call) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t k; (k = next++) < count;) {
      try {
        call(k);
      } catch (...) {
        failures[k] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> others;
  threads = std::min(threads, count);
  others.reserve(threads);
  try {
    while (others.size() + 1 < threads) others.emplace_back(work);
  } catch (const std::exception&) {
    // The system starts no more: this thread takes what the others do not.
  }
  work();
  for (std::thread& thread : others) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}
// On as many threads as there are processors.
template <class Call>
void parallel_for(std::size_t count, const Call& call) {
  parallel_for(count, std::thread::hardware_concurrency(), call);
}

}  // namespace braid::ir
