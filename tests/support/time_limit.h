// A limit for code that may hang: a fault then fails its test with a message instead of running into ctest's
// limit.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace braid::test {

// Well above what anything takes on a busy machine with sanitizers, and below ctest's limit.
inline constexpr std::chrono::seconds kMostSeconds{200};

// Ends this process with a message if it is not destroyed in time: threads that hang cannot be ended alone.
class TimeLimit {
 public:
  explicit TimeLimit(std::chrono::seconds limit = kMostSeconds)
      : limit_(limit), thread_([this] { watch(); }) {}
  ~TimeLimit() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit_, [&] { return over_; })) return;
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::fprintf(stderr, "Failure: %s.%s hangs: what it runs has not ended within %lld s\n",
                 test == nullptr ? "?" : test->test_suite_name(), test == nullptr ? "?" : test->name(),
                 static_cast<long long>(limit_.count()));
    std::fflush(nullptr);
    std::_Exit(1);
  }

  const std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;  // the last to be made
};

}  // namespace braid::test
