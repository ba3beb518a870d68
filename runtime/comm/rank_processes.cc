#include "runtime/comm/rank_processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/comm/futex.h"

namespace braid::rt {
namespace {

constexpr int64_t kLookNs = 100'000'000;       // between two checks of the ranks
constexpr int kLookWithoutDescriptorsMs = 5;   // the same, if no descriptor tells that a rank has ended
constexpr int64_t kLastWordsNs = 500'000'000;  // in which a rank ends that has timed out
constexpr int64_t kDeathNs = 5'000'000'000;    // in which a killed process must end

std::string describe_signal(int signal) {
  return "signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

}  // namespace

RankProcesses::~RankProcesses() {
  for (const Rank& rank : ranks_) {
    if (rank.descriptor >= 0) close(rank.descriptor);
  }
}

void RankProcesses::add(pid_t process) {
  Rank rank{.process = process};
  rank.descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  ranks_.push_back(std::move(rank));
}

void RankProcesses::kill_all() {
  for (Rank& rank : ranks_) give_up(rank, "was ended with the others");
}

Status RankProcesses::wait() {
  while (look()) sleep_until_news();
  const std::string text = endings();
  return text.empty() ? Status{} : Status::error(StatusCode::peer_died, text);
}

bool RankProcesses::look() {
  for (Rank& rank : ranks_) collect(rank);
  if (std::ranges::none_of(ranks_, &Rank::running)) return false;
  const int64_t now = monotonic_ns();
  const int64_t passed = last_look_ns_ == 0 ? 0 : std::min(now - last_look_ns_, 2 * kLookNs);
  last_look_ns_ = now;
  failed_ns_ = run_has_failed() ? failed_ns_ + passed : 0;
  for (Rank& rank : ranks_) judge(rank, passed);
  return true;
}

std::string RankProcesses::endings() const {
  std::string text;
  for (const bool consequence : {false, true}) {
    for (const Rank& rank : ranks_) {
      if (rank.ending.empty() || rank.consequence != consequence) continue;
      text += std::string(text.empty() ? "" : "; ") + "rank " + std::to_string(number_of(rank)) +
              " (process " + std::to_string(rank.process) + ") " + rank.ending;
    }
  }
  return text;
}

// Records what has happened to a rank since the last check.
void RankProcesses::collect(Rank& rank) {
  while (rank.running) {
    int state = 0;
    const pid_t found = waitpid(rank.process, &state, WNOHANG | WUNTRACED | WCONTINUED);
    if (found == 0) return;
    if (found < 0) {
      if (errno == EINTR) continue;
      rank.running = false;
      rank.ending = std::string("cannot be waited for: ") + std::strerror(errno);
    } else if (WIFSTOPPED(state)) {
      rank.stop_signal = WSTOPSIG(state);
      rank.stopped_ns = 0;
    } else if (WIFCONTINUED(state)) {
      rank.stop_signal = 0;
    } else {
      rank.running = false;
      rank.ending = describe_end(rank, state);
      rank.consequence = WIFEXITED(state) && WEXITSTATUS(state) != 0;
    }
  }
}

std::string RankProcesses::describe_end(const Rank& rank, int state) {
  if (WIFSIGNALED(state)) {
    const int signal = WTERMSIG(state);
    if (signal == SIGKILL && !rank.verdict.empty()) return rank.verdict + " and has been killed";
    return "was killed by " + describe_signal(signal);
  }
  if (WEXITSTATUS(state) != 0) return "exited with code " + std::to_string(WEXITSTATUS(state));
  return run_.has_left(number_of(rank)) ? std::string() : "exited without returning from its function";
}

bool RankProcesses::run_has_failed() const {
  const bool some_ended = std::ranges::any_of(ranks_, [](const Rank& rank) { return !rank.running; });
  return run_.failed(some_ended) || std::ranges::any_of(ranks_, [](const Rank& rank) {
           return !rank.ending.empty() || !rank.verdict.empty();
         });
}

void RankProcesses::judge(Rank& rank, int64_t passed_ns) {
  if (!rank.running) return;
  const int64_t patience_ns = run_.timeout_ms() * 1'000'000;
  if (!rank.verdict.empty()) {
    rank.killed_ns += passed_ns;
    if (rank.killed_ns < kDeathNs) return;
    rank.running = false;  // in a system call that does not return: it cannot be ended
    rank.ending = rank.verdict + " and does not end although it has been killed";
    return;
  }
  if (!run_.waits_for(number_of(rank))) {
    rank.stopped_ns = 0;
    return;
  }
  const bool lost = run_has_failed();
  if (rank.stop_signal != 0) {
    rank.stopped_ns += passed_ns;
    if (lost || rank.stopped_ns > 2 * patience_ns)
      give_up(rank, "was stopped by " + describe_signal(rank.stop_signal));
  } else if (lost && failed_ns_ > patience_ns + kLastWordsNs) {
    give_up(rank, "still ran " + std::to_string(run_.timeout_ms()) + " ms after the run had failed");
  }
}

void RankProcesses::give_up(Rank& rank, const std::string& verdict) {
  if (!rank.running) return;
  rank.verdict = verdict;
  kill(rank.process, SIGKILL);
}

void RankProcesses::sleep_until_news(int wake, bool idle) const {
  std::vector<pollfd> ends;
  bool all = true;
  for (const Rank& rank : ranks_) {
    if (!rank.running) continue;
    all = all && rank.descriptor >= 0;
    ends.push_back({.fd = rank.descriptor, .events = POLLIN, .revents = 0});
  }
  ends.push_back({.fd = wake, .events = POLLIN, .revents = 0});
  const int look_ms = all ? static_cast<int>(kLookNs / 1'000'000) : kLookWithoutDescriptorsMs;
  poll(ends.data(), ends.size(), idle && all ? -1 : look_ms);
}

}  // namespace braid::rt
