#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/comm/bootstrap.h"
#include "runtime/comm/rank_processes.h"
#include "runtime/comm/shm_world.h"

namespace braid::rt {
namespace {

// How a rank ended; empty if it succeeded.
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

// Waiting for children does not work if SIGCHLD is ignored, which a process may have inherited.
class WaitableChildren {
 public:
  WaitableChildren() {
    sigaction(SIGCHLD, nullptr, &saved_);
    if (saved_.sa_handler != SIG_IGN && !(saved_.sa_flags & SA_NOCLDWAIT)) return;
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    changed_ = sigaction(SIGCHLD, &standard, nullptr) == 0;
  }
  ~WaitableChildren() {
    if (changed_) sigaction(SIGCHLD, &saved_, nullptr);
  }
  WaitableChildren(const WaitableChildren&) = delete;
  WaitableChildren& operator=(const WaitableChildren&) = delete;

 private:
  struct sigaction saved_ {};
  bool changed_ = false;
};

// The World reports the state of the run.
class RunOfWorld final : public SupervisedRun {
 public:
  explicit RunOfWorld(const SharedMemory& memory) : memory_(memory) {}
  int64_t timeout_ms() const override { return memory_.timeout_ms(); }
  bool failed(bool some_ended) const override { return some_ended && memory_.failed(); }
  bool has_left(int rank) const override { return memory_.has_left(rank); }
  bool waits_for(int) const override { return true; }

 private:
  const SharedMemory& memory_;
};

// The life of a child; does not return. It ends with its parent, even if it is stopped at that time.
[[noreturn]] void child_main(const SharedMemory& memory, int rank, pid_t parent, const LaunchOptions& options,
                             const RankFunction& function) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
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
    try {
      threads.emplace_back([&, rank] {
        endings[rank] = run_rank(*worlds[rank], function);
        worlds[rank].reset();  // peers that still wait for this rank learn that it left
      });
    } catch (const std::system_error& error) {
      endings[rank] = "cannot be started: " + std::string(error.code().message());
      std::for_each(worlds.begin() + rank, worlds.end(),
                    [](std::unique_ptr<World>& world) { world.reset(); });
      break;
    }
  }
  for (std::thread& thread : threads) thread.join();
  return summarise(endings);
}

Status launch_processes(int n, const LaunchOptions& options, const RankFunction& function) {
  SharedMemory memory;
  if (Status made = SharedMemory::create(n, options.world, &memory); !made.ok()) return made;
  std::fflush(nullptr);  // otherwise every child would print the contents of our buffers again
  const pid_t parent = getpid();
  const WaitableChildren waitable;
  const RunOfWorld run(memory);
  RankProcesses children(run);
  Status failed;
  for (int rank = 0; rank < n && failed.ok(); ++rank) {
    const pid_t pid = fork();
    if (pid == 0) child_main(memory, rank, parent, options, function);
    if (pid > 0) {
      children.add(pid);
    } else {
      failed = Status::error(StatusCode::system,
                             "cannot start rank " + std::to_string(rank) + ": " + std::strerror(errno));
      children.kill_all();
    }
  }
  const Status ended = children.wait();
  return failed.ok() ? ended : failed;
}

}  // namespace braid::rt
