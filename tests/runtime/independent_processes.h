// Processes that a launcher would have started, each with its own environment.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/time_limit.h"

namespace braid::rt::testing {

// Returns the state of a process that has ended, as waitpid gives it. A process that has not ended at the
// deadline is killed, and fails the test.
inline int state_of(pid_t child, std::chrono::steady_clock::time_point deadline) {
  int state = 0;
  while (waitpid(child, &state, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "process " << child << " hangs: it has not ended in time";
      kill(child, SIGKILL);
      waitpid(child, &state, 0);
      break;
    }
    usleep(500);
  }
  return state;
}

// Independent processes that only share environment variables.
inline std::vector<int> run_independent(int processes, const std::function<int(int)>& body) {
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      const int code = body(i);
      std::fflush(nullptr);
      _exit(::testing::Test::HasFailure() ? 99 : code);
    }
    children.push_back(pid);
  }
  std::vector<int> codes;
  const auto deadline = std::chrono::steady_clock::now() + test::kMostSeconds;
  for (const pid_t child : children) {
    const int state = state_of(child, deadline);
    codes.push_back(WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state));
  }
  return codes;
}

inline void set_torchrun(int rank, int size) {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("MASTER_ADDR", "test", 1);
  setenv("MASTER_PORT", std::to_string(getppid()).c_str(), 1);
}

}  // namespace braid::rt::testing
