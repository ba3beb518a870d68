#include "runtime/comm/process_identity.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace braid::rt {
namespace {

struct ProcStat {
  bool found = false;
  char state = '?';
  uint64_t start_time = 0;
};

ProcStat read_proc_stat(int64_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lld/stat", static_cast<long long>(pid));
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char text[1024];
  const ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return {};
  text[length] = '\0';
  // The command, in parentheses, may itself hold spaces and parentheses.
  const char* field = std::strrchr(text, ')');
  if (field == nullptr || field[1] != ' ') return {};
  ProcStat stat{.found = true, .state = field[2]};
  field += 2;
  for (int skip = 3; skip < 22 && field != nullptr; ++skip) {
    field = std::strchr(field, ' ');
    if (field != nullptr) ++field;
  }
  if (field != nullptr) stat.start_time = std::strtoull(field, nullptr, 10);
  return stat;
}

uint64_t pid_namespace() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

}  // namespace

ProcessIdentity current_process() {
  return {
      .pid = getpid(), .start_time = read_proc_stat(getpid()).start_time, .pid_namespace = pid_namespace()};
}

bool maybe_alive(const ProcessIdentity& process) {
  if (process.pid_namespace != pid_namespace()) return true;
  if (kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return false;
  const ProcStat stat = read_proc_stat(process.pid);
  if (!stat.found) return true;  // no /proc: kill() is all we know
  if (stat.state == 'Z' || stat.state == 'X') return false;
  return stat.start_time == process.start_time || process.start_time == 0;
}

bool is_stopped(const ProcessIdentity& process) {
  if (process.pid_namespace != pid_namespace()) return false;
  const ProcStat stat = read_proc_stat(process.pid);
  return stat.found && stat.start_time == process.start_time && (stat.state == 'T' || stat.state == 't');
}

ProcessIdentity parent_process() {
  const pid_t pid = getppid();
  if (pid <= 1) return {};
  return {.pid = pid, .start_time = read_proc_stat(pid).start_time, .pid_namespace = pid_namespace()};
}

}  // namespace braid::rt
