#include "runtime/comm/rank_programs.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "runtime/comm/rank_processes.h"
#include "runtime/comm/start_program.h"

namespace braid::rt {
namespace {

// A counter that wakes the threads that poll it.
class Bell {
 public:
  Bell() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Bell() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  void ring() const { eventfd_write(descriptor_, 1); }
  void hear() const {
    eventfd_t count = 0;
    eventfd_read(descriptor_, &count);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// Python's handlers must run in its own threads.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

class RankPrograms::Supervision final : public SupervisedRun {
 public:
  Supervision(const std::vector<RankProgram>& ranks, int64_t timeout_ms)
      : timeout_ms_(timeout_ms), processes_(*this), waits_for_(ranks.size(), true) {}

  // The kernel ends a rank with the thread that has started it. This is the main thread, or else the thread
  // that supervises the ranks and lives as long as they do.
  Status start(const std::vector<RankProgram>& ranks) {
    Status started;
    const bool in_main_thread = static_cast<pid_t>(syscall(SYS_gettid)) == owner_;
    if (in_main_thread) started = start_all(ranks);
    const AllSignalsBlocked blocked;
    std::atomic<bool> begun = in_main_thread;
    try {
      thread_ = std::thread([&, in_main_thread, wake = &begun] {
        if (!in_main_thread) {
          started = start_all(ranks);
          wake->store(true);
          wake->notify_one();
        }
        supervise();
      });
    } catch (const std::system_error& error) {
      kill_all_ = true;
      supervise();
      return Status::error(StatusCode::system,
                           std::string("cannot supervise ranks: ") + error.code().message());
    }
    begun.wait(false);
    return started;
  }

  void end(int64_t patience_ms) {
    if (getpid() !=
        owner_) {  // a fork of this process: the ranks are not its children, and it lacks the thread
      static_cast<void>(new std::thread(std::move(thread_)));
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      timeout_ms_ = patience_ms;
      kill_all_ = kill_all_ || patience_ms == 0;
    }
    wake_.ring();
    if (thread_.joinable()) thread_.join();
  }

  template <class Change>
  void change(Change what) {
    {
      const std::lock_guard lock(mutex_);
      what(*this);
    }
    wake_.ring();
  }
  template <class Question>
  auto ask(Question what) {
    const std::lock_guard lock(mutex_);
    return what(processes_);
  }
  const Bell& news() const { return news_; }

  std::vector<bool>& waited_for() { return waits_for_; }
  void set_failed(bool failed) { failed_ = failed; }

 private:
  // Called with the lock, by the thread that supervises.
  int64_t timeout_ms() const override { return timeout_ms_; }
  bool failed(bool) const override { return failed_ || ending_; }
  bool has_left(int) const override { return ending_; }
  bool waits_for(int rank) const override { return ending_ || waits_for_[static_cast<size_t>(rank)]; }

  Status start_all(const std::vector<RankProgram>& ranks) {
    const std::lock_guard lock(mutex_);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const pid_t process = start_program(ranks[rank]);
      if (process < 0) {
        kill_all_ = true;
        return Status::error(StatusCode::system, "cannot start rank " + std::to_string(rank) + " (" +
                                                     ranks[rank].arguments[0] + "): " + std::strerror(errno));
      }
      processes_.add(process);
    }
    return {};
  }

  void supervise() {
    for (;;) {
      bool idle = true;
      {
        const std::lock_guard lock(mutex_);
        wake_.hear();
        if (kill_all_) processes_.kill_all();
        const int before = ended();
        const bool some_run = processes_.look();
        if (ended() != before) news_.ring();
        if (!some_run) return;
        for (int rank = 0; rank < processes_.size(); ++rank) idle = idle && !waits_for(rank);
      }
      processes_.sleep_until_news(wake_.descriptor(), idle);
    }
  }

  int ended() const {
    int count = 0;
    for (int rank = 0; rank < processes_.size(); ++rank) count += processes_.has_ended(rank) ? 1 : 0;
    return count;
  }

  const pid_t owner_ = getpid();
  std::mutex mutex_;
  int64_t timeout_ms_;
  RankProcesses processes_;
  std::vector<bool> waits_for_;
  bool failed_ = false, ending_ = false, kill_all_ = false;
  Bell wake_, news_;
  std::thread thread_;
};

RankPrograms::RankPrograms() = default;

RankPrograms::~RankPrograms() {
  if (supervision_) supervision_->end(0);
}

Status RankPrograms::start(const std::vector<RankProgram>& ranks, int64_t timeout_ms,
                           std::unique_ptr<RankPrograms>* out) {
  std::unique_ptr<RankPrograms> made(new RankPrograms());
  made->supervision_ = std::make_unique<Supervision>(ranks, timeout_ms);
  made->news_ = made->supervision_->news().descriptor();
  if (made->news_ < 0)
    return Status::error(StatusCode::system, std::string("cannot supervise ranks: ") + std::strerror(errno));
  if (Status started = made->supervision_->start(ranks); !started.ok()) return started;
  *out = std::move(made);
  return {};
}

std::vector<pid_t> RankPrograms::processes() const {
  return supervision_->ask([](const RankProcesses& ranks) {
    std::vector<pid_t> out;
    for (int rank = 0; rank < ranks.size(); ++rank) out.push_back(ranks.process(rank));
    return out;
  });
}

void RankPrograms::begin_step() {
  supervision_->change([](Supervision& s) {
    s.waited_for().assign(s.waited_for().size(), true);
    s.set_failed(false);
  });
}

void RankPrograms::answered(int rank) {
  supervision_->change([rank](Supervision& s) { s.waited_for()[static_cast<size_t>(rank)] = false; });
}

void RankPrograms::fail_step() {
  supervision_->change([](Supervision& s) { s.set_failed(true); });
}

bool RankPrograms::has_ended(int rank) const {
  return supervision_->ask([rank](const RankProcesses& ranks) { return ranks.has_ended(rank); });
}

std::string RankPrograms::endings() {
  supervision_->news().hear();
  return supervision_->ask([](const RankProcesses& ranks) { return ranks.endings(); });
}

void RankPrograms::end(int64_t patience_ms) { supervision_->end(patience_ms); }

}  // namespace braid::rt
