// Runs a function on ranks as threads, and what the emulated device found meanwhile.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/emulated/findings.h"
#include "runtime/emulated/options.h"
#include "tests/support/time_limit.h"

namespace braid::test {

using emulated::Finding;
using emulated::FindingKind;

// Returns the result of `run(rank)` on each rank; "" for null.
inline std::vector<std::string> run_ranks(int ranks, const std::function<const char*(int)>& run) {
  const TimeLimit limit;
  std::vector<std::string> results(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      if (const char* error = run(rank)) results[static_cast<size_t>(rank)] = error;
    });
  }
  for (auto& thread : threads) thread.join();
  return results;
}

// Findings of earlier tests do not reach the next one, and an unexpected finding fails the test.
class EmulatedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    emulated::options().time_out = std::chrono::milliseconds(60000);
    emulated::options().print_findings = false;
    emulated::reset_devices();
  }
  void TearDown() override {
    for (const Finding& finding : emulated::take_findings())
      ADD_FAILURE() << emulated::name_of(finding.kind) << ": " << finding.text;
    emulated::reset_devices();
    emulated::options() = saved_;
  }
  // Takes them; as "kind: text".
  static std::vector<std::string> found() {
    std::vector<std::string> texts;
    for (const Finding& finding : emulated::take_findings())
      texts.push_back(std::string(emulated::name_of(finding.kind)) + ": " + finding.text);
    return texts;
  }

 private:
  emulated::Options saved_ = emulated::options();
};

// With the real thread sanitizer no access is recorded.
#ifdef __SANITIZE_THREAD__
#define BRAID_NEEDS_OBSERVED_ACCESSES() GTEST_SKIP() << "the thread sanitizer has the access hooks"
#else
#define BRAID_NEEDS_OBSERVED_ACCESSES() \
  do {                                  \
  } while (0)
#endif

}  // namespace braid::test
