// What must not outlive this process when a signal ends it: folders and files that are there for a while
// only, and the host compiler with all that it has started.
//
// The command line asks for that once (end_cleanly_on_signals). An application that uses the compiler as a
// library keeps its own handlers, and then these objects do nothing.
#pragma once

#include <sys/types.h>

#include <string>

namespace braid::codegen {

// On SIGINT, SIGTERM and SIGHUP, unless they are ignored: ends the process groups and removes the files and
// folders that are named at that time, then lets the signal end the process. Ranks end by themselves
// (runtime/comm/bootstrap.h).
void end_cleanly_on_signals();

// A folder, or a file that is being written; named before it is made. It is only removed as a regular file or
// a folder: an output may be a device or a link.
class Leftover {
 public:
  explicit Leftover(const std::string& path);
  ~Leftover();
  Leftover(const Leftover&) = delete;
  Leftover& operator=(const Leftover&) = delete;

 private:
  int slot_;
};

// A process group.
class LeftoverProcesses {
 public:
  explicit LeftoverProcesses(pid_t group);
  ~LeftoverProcesses();
  LeftoverProcesses(const LeftoverProcesses&) = delete;
  LeftoverProcesses& operator=(const LeftoverProcesses&) = delete;

 private:
  int slot_;
};

}  // namespace braid::codegen
