// Identifies a process and tells whether it is alive. A pid alone cannot: pids are reused, and a killed child
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

// False only if the process is certainly gone or a zombie.
bool maybe_alive(const ProcessIdentity& process);

// True only if the process is certainly stopped (SIGSTOP, a debugger).
bool is_stopped(const ProcessIdentity& process);

// The process that started this one. It has no pid if it no longer lives or is outside this pid namespace.
ProcessIdentity parent_process();

}  // namespace braid::rt
