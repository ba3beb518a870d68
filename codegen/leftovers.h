// Things that must not outlive this process if a signal ends it: temporary folders and files, and the host
// compiler with all processes that it has started.
//
// The command line enables this once (end_cleanly_on_signals), the Python package for each call
// (EndsCleanly). An application that uses the compiler as a library keeps its own handlers, and then these
// objects do nothing.
#pragma once

#include <sys/types.h>

#include <string>

namespace braid::codegen {

// On SIGINT, SIGTERM and SIGHUP, unless ignored, ends the registered process groups, removes the registered
// files and folders, then lets the signal end the process. Ranks end by themselves
// (runtime/comm/bootstrap.h).
void end_cleanly_on_signals();

// Does the same during its lifetime, for a library call in an application. It handles only those of these
// signals that have the default action, and restores that at the end. Several threads may have one.
class EndsCleanly {
 public:
  EndsCleanly();
  ~EndsCleanly();
  EndsCleanly(const EndsCleanly&) = delete;
  EndsCleanly& operator=(const EndsCleanly&) = delete;
};

// A folder, or a file being written; registered before it is created. Only a regular file or a folder is
// removed: an output may be a device or a link.
class Leftover {
 public:
  explicit Leftover(const std::string& path);
  ~Leftover();
  Leftover(const Leftover&) = delete;
  Leftover& operator=(const Leftover&) = delete;

 private:
  int slot_;
};

// A registered process group.
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
