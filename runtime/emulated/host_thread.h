// A host thread as the checker sees it, and what the CUDA API keeps per host thread.
//
// The first thread that uses the device is the main one. Another starts with what the main thread knows when
// it first uses the device, and when it ends the main thread knows what it knew: as std::thread's constructor
// and join order them. Barriers and the like between host threads order nothing here; collectives and streams
// do.
#pragma once

#include <string>

#include "runtime/emulated/checker.h"
#include "runtime/emulated/vector_clock.h"

namespace braid::emulated {

struct HostThread {
  LogicalThread id{};
  VectorClock clock;
  int device = 0;
  std::string label;
  int last_error = 0;  // cudaError_t

  HostThread();
  ~HostThread();
  void set_device(int device);
  // All that this thread follows, ended threads included.
  VectorClock& now();
};

HostThread& host_thread();

}  // namespace braid::emulated
