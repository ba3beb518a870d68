#include "runtime/comm/start_program.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/comm/rank_programs.h"

namespace braid::rt {
namespace {

constexpr int kFirst = 3;  // descriptor that a program finds

// All that the child needs, made by the parent: between vfork and exec the child may not allocate.
struct Prepared {
  std::vector<char*> arguments, environment;
  std::vector<int> descriptors;  // copies above those that the program finds
  pid_t parent;
  sigset_t mask;
  int last_to_close;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// The child shares the parent's memory, and handlers would run in it: all signals are blocked until it has
// none.
void forget_handlers() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_DFL) continue;
    // Python ignores these two for itself.
    if (now.sa_handler == SIG_IGN && signal != SIGPIPE && signal != SIGXFSZ) continue;
    now = {};
    now.sa_handler = SIG_DFL;
    sigaction(signal, &now, nullptr);
  }
}

void close_from(int first, int last) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, first, ~0U, 0) == 0) return;
#endif
  for (int descriptor = first; descriptor <= last; ++descriptor) close(descriptor);
}

[[noreturn]] void become(const Prepared& prepared, volatile int* error) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != prepared.parent) _exit(1);       // it died before the line above
  setsid();                                         // an interrupt at the terminal reaches the parent only
  const int nothing = open("/dev/null", O_RDONLY);  // 0 to 2 where the parent has closed these
  if (nothing > STDIN_FILENO) {
    dup2(nothing, STDIN_FILENO);
    if (nothing < kFirst) close(nothing);
  }
  int next = kFirst;
  for (const int descriptor : prepared.descriptors) {
    if (dup2(descriptor, next++) < 0) {
      *error = errno;
      _exit(1);
    }
  }
  close_from(next, prepared.last_to_close);
  forget_handlers();
  pthread_sigmask(SIG_SETMASK, &prepared.mask, nullptr);
  execve(prepared.arguments[0], prepared.arguments.data(), prepared.environment.data());
  *error = errno;
  _exit(1);
}

// vfork: fork would copy the page tables of a process that may be huge.
pid_t spawn(const Prepared& prepared, volatile int* error) {
  const pid_t child = vfork();
  if (child == 0) become(prepared, error);
  return child;
}

}  // namespace

pid_t start_program(const RankProgram& program) {
  Prepared prepared{.arguments = pointers(program.arguments),
                    .environment = pointers(program.environment),
                    .descriptors = {},
                    .parent = getpid(),
                    .mask = {},
                    .last_to_close = static_cast<int>(std::min(sysconf(_SC_OPEN_MAX), 65536L))};
  volatile int error = 0;
  for (const int descriptor : program.descriptors) {
    const int copy =
        fcntl(descriptor, F_DUPFD_CLOEXEC, kFirst + static_cast<int>(program.descriptors.size()));
    if (copy < 0) error = errno;
    if (copy >= 0) prepared.descriptors.push_back(copy);
  }
  pid_t child = -1;
  if (error == 0) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &prepared.mask);
    child = spawn(prepared, &error);
    if (child < 0) error = errno;
    if (child > 0 && error != 0) waitpid(child, nullptr, 0);
    pthread_sigmask(SIG_SETMASK, &prepared.mask, nullptr);
  }
  for (const int descriptor : prepared.descriptors) close(descriptor);
  errno = error;
  return error == 0 ? child : -1;
}

}  // namespace braid::rt
