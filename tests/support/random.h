// Seeds and numbers of cases of random tests, so that one test serves the fast and the deep tier
// (scripts/test_deep.sh).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace braid::test {

// First seed of a random test: BRAID_TEST_SEED, or `fallback`. Case i uses seed + i; a failing test prints
// its own.
inline std::uint64_t first_seed(std::uint64_t fallback = 1) {
  const char* text = std::getenv("BRAID_TEST_SEED");
  return text != nullptr ? std::stoull(text) : fallback;
}

// Number of cases: `fast` of them in the fast tier, BRAID_RANDOM_SCALE times as many in the deep one; fewer
// under a sanitizer, where each takes ten times as long and touches or timing, not values, are what is new.
inline int random_cases(int fast) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  fast = (fast + 3) / 4;
#endif
  const char* text = std::getenv("BRAID_RANDOM_SCALE");
  return text != nullptr ? static_cast<int>(fast * std::stod(text)) : fast;
}
// Whether this is the deep tier, with the scale that scripts/test_deep.sh sets or a larger one.
inline bool is_deep() { return random_cases(100) >= 100 * 100; }

}  // namespace braid::test
