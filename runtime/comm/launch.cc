#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/bootstrap.h"

namespace braid::rt {
namespace {

// How a rank ended; empty when well.
using Ending = std::string;

Ending run_rank(World& world, const RankFunction& function) {
  try {
    const int code = function(world);
    return code == 0 ? Ending{} : "returned " + std::to_string(code);
  } catch (const std::exception& error) {
    return std::string("threw: ") + error.what();
  } catch (...) {
    return "threw";
  }
}

Status summarise(const std::vector<Ending>& endings) {
  std::string text;
  for (size_t rank = 0; rank < endings.size(); ++rank) {
    if (endings[rank].empty()) continue;
    text += std::string(text.empty() ? "" : "; ") + "rank " + std::to_string(rank) + " " + endings[rank];
  }
  return text.empty() ? Status{} : Status::error(StatusCode::peer_died, text);
}

// The life of a child; does not return.
[[noreturn]] void child_main(const SharedMemory& memory, int rank, pid_t parent, const LaunchOptions& options,
                             const RankFunction& function) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // it died before the line above
  Ending ending;
  {
    std::unique_ptr<World> world;
    Status attached = memory.attach(rank, &world, options.pacing);
    ending = attached.ok() ? run_rank(*world, function) : attached.message;
  }
  if (!ending.empty()) std::fprintf(stderr, "rank %d %s\n", rank, ending.c_str());
  std::fflush(nullptr);
  _exit(ending.empty() ? 0 : 1);
}

Ending wait_for(pid_t pid) {
  int state = 0;
  while (waitpid(pid, &state, 0) < 0) {
    if (errno != EINTR) return std::string("cannot be waited for: ") + std::strerror(errno);
  }
  const std::string name = "(process " + std::to_string(pid) + ") ";
  if (WIFSIGNALED(state)) {
    const int signal = WTERMSIG(state);
    return name + "was killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  }
  if (WEXITSTATUS(state) != 0) return name + "exited with code " + std::to_string(WEXITSTATUS(state));
  return {};
}

}  // namespace

Status launch_threads(int n, const LaunchOptions& options, const RankFunction& function) {
  SharedMemory memory;
  if (Status made = SharedMemory::create(n, options.world, &memory); !made.ok()) return made;
  std::vector<std::unique_ptr<World>> worlds(n);
  for (int rank = 0; rank < n; ++rank) {
    if (Status attached = memory.attach(rank, &worlds[rank], options.pacing); !attached.ok()) return attached;
  }
  std::vector<Ending> endings(n);
  std::vector<std::thread> threads;
  threads.reserve(n);
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] {
      endings[rank] = run_rank(*worlds[rank], function);
      worlds[rank].reset();  // peers that still wait for this rank learn that it left
    });
  }
  for (std::thread& thread : threads) thread.join();
  return summarise(endings);
}

Status launch_processes(int n, const LaunchOptions& options, const RankFunction& function) {
  SharedMemory memory;
  if (Status made = SharedMemory::create(n, options.world, &memory); !made.ok()) return made;
  std::fflush(nullptr);  // or every child would print again what is in our buffers
  const pid_t parent = getpid();
  std::vector<pid_t> children;
  Status failed;
  for (int rank = 0; rank < n && failed.ok(); ++rank) {
    const pid_t pid = fork();
    if (pid == 0) child_main(memory, rank, parent, options, function);
    if (pid > 0) {
      children.push_back(pid);
    } else {
      failed = Status::error(StatusCode::system,
                             "cannot start rank " + std::to_string(rank) + ": " + std::strerror(errno));
      for (const pid_t child : children) kill(child, SIGTERM);
    }
  }
  std::vector<Ending> endings;
  for (const pid_t child : children) endings.push_back(wait_for(child));
  return failed.ok() ? summarise(endings) : failed;
}

}  // namespace braid::rt
