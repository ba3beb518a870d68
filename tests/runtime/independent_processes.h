// Processes that a launcher would have started, each with its own environment.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace braid::rt::testing {

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
  for (const pid_t child : children) {
    int state = 0;
    waitpid(child, &state, 0);
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
