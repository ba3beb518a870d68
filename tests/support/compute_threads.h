// How many threads compute what a test calls.
#pragma once

#include <omp.h>

#include "runtime/team.h"

namespace braid::test {

// While it lives, kernels, and the instances that are made, have that many threads on this thread.
class ComputeThreads {
 public:
  explicit ComputeThreads(int threads) : before_(omp_get_max_threads()), team_(threads), scope_(&team_) {
#ifdef __SANITIZE_THREAD__
    threads = 1;  // the sanitizer sees neither the start nor the end of a team of libgomp
#endif
    omp_set_num_threads(threads);
  }
  ~ComputeThreads() { omp_set_num_threads(before_); }
  ComputeThreads(const ComputeThreads&) = delete;
  ComputeThreads& operator=(const ComputeThreads&) = delete;

 private:
  const int before_;  // of the library, and of instances
  rt::Team team_;
  const rt::TeamScope scope_;
};

}  // namespace braid::test
