// Cases that may crash, run without end or use up all memory, each within limits, in forked children.
#pragma once

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <string>
#include <vector>

#include "ir/error.h"

namespace braid::test {

struct CaseFailure {
  int number;
  std::string what;
};

inline constexpr int kCaseSeconds = 20;  // of processor time, so that a busy machine changes nothing
inline constexpr rlim_t kCaseBytes = rlim_t{4} << 30;

inline constexpr unsigned kMostSecondsOfACase = 150;  // of waiting: never reached by what works

// Runs f(0) to f(count - 1). A case fails where it throws anything but a UserError, ends its process, needs
// more than `seconds` of processor time or more than `bytes`. Under the address and the thread sanitizer,
// which reserve terabytes, memory is unbounded.
template <class F>
std::vector<CaseFailure> run_limited(int count, const F& f, rlim_t bytes = kCaseBytes,
                                     int seconds = kCaseSeconds) {
  constexpr int kPerChild = 1000;  // so that what earlier cases leave behind does not add up
  auto* current = static_cast<int*>(
      ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::vector<CaseFailure> failures;
  for (int first = 0; first < count;) {
    const int last = std::min(count, first + kPerChild);
    *current = first;
    int channel[2];
    if (::pipe(channel) != 0) throw std::runtime_error("no pipe");
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("no child process");
    if (child == 0) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
      const rlimit memory{bytes, bytes};
      ::setrlimit(RLIMIT_AS, &memory);
#endif
      const rlimit no_core{0, 0};
      ::setrlimit(RLIMIT_CORE, &no_core);
      for (int k = first; k < last; ++k) {
        *current = k;
        const itimerval limit{{0, 0}, {seconds, 0}};
        ::setitimer(ITIMER_PROF, &limit, nullptr);  // its signal ends the child
        ::alarm(kMostSecondsOfACase);
        std::string what;
        try {
          f(k);
        } catch (const ir::UserError&) {
        } catch (const std::exception& error) {
          what = error.what();
        }
        if (what.empty()) continue;
        std::replace(what.begin(), what.end(), '\n', ' ');
        what = fmt::format("{} {}\n", k, what);
        if (::write(channel[1], what.data(), what.size()) < 0) ::_exit(2);
      }
      ::_exit(0);
    }
    ::close(channel[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(channel[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(n));
    ::close(channel[0]);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at), space = text.find(' ', at);
      failures.push_back({std::stoi(text.substr(at, space - at)), text.substr(space + 1, end - space - 1)});
      at = end + 1;
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    first = last;
    if (status == 0) continue;
    const int number = *current;
    failures.push_back({number, WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF
                                    ? fmt::format("more than {} s of processor time", seconds)
                                : WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "it waits for ever"
                                : WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                                      : fmt::format("exit code {}", WEXITSTATUS(status))});
    first = number + 1;
  }
  ::munmap(current, sizeof(int));
  return failures;
}

}  // namespace braid::test
