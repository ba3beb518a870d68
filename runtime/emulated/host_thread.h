// A host thread as the checker sees it, and what the CUDA API keeps per host thread.
//
// The process's own thread is the main one; until it uses the device, the first other that does. Another
// thread starts with what the main one knows when it first uses the device, as behind std::thread's
// constructor; what it knew when it ended, the main one knows from its own next use of the device on, as
// behind join. Threads that are started one after the other with no such use between them count as siblings.
// Barriers and the like between host threads order nothing here; collectives and streams do.
#pragma once

#include <string>

#include "runtime/emulated/checker.h"
#include "runtime/emulated/vector_clock.h"

namespace braid::emulated {

class HostThread {
 public:
  HostThread();
  ~HostThread();

  int device = 0;
  std::string label;
  int last_error = 0;  // cudaError_t

  void set_device(int device);
  // All that this thread follows, ended threads included.
  const VectorClock& now();
  // What it has waited for.
  void follow(const VectorClock& clock);
  // An operation that it does itself.
  Checker::Operation begin(std::string name);

 private:
  void update(const VectorClock* followed);

  LogicalThread id_;
  VectorClock clock_;
  bool main_ = false;  // is the main one, or was until the process's own thread came
};

HostThread& host_thread();

}  // namespace braid::emulated
