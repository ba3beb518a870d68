// Which process is it, and does it still live? A pid alone does not tell: pids are reused, and a killed child
// stays visible as a zombie until its parent collects it.
#pragma once

#include <cstdint>

namespace braid::rt {

struct ProcessIdentity {
  int64_t pid = 0;
  uint64_t start_time = 0;     // clock ticks since boot, from /proc
  uint64_t pid_namespace = 0;  // inode; processes of different namespaces cannot judge each other
};

ProcessIdentity current_process();

// False only when it is certain that the process is gone or a zombie.
bool maybe_alive(const ProcessIdentity& process);

// True only when it is certain that the process is stopped (SIGSTOP, a debugger).
bool is_stopped(const ProcessIdentity& process);

// Which process started this one. No pid: nobody who still lives, or somebody outside of this pid namespace.
ProcessIdentity parent_process();

}  // namespace braid::rt
