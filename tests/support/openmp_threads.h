// How many threads of OpenMP a test may ask for.
#pragma once

namespace braid::test {

// The thread sanitizer sees neither the start nor the end of a team of libgomp, which lacks its hooks, so the
// team gets one thread.
constexpr int team_of(int threads) {
#ifdef __SANITIZE_THREAD__
  return threads > 0 ? 1 : threads;
#else
  return threads;
#endif
}

}  // namespace braid::test
