// A host thread in the checker's view, and the CUDA API's state per host thread.
//
// The process's initial thread is the main one; until it uses the device, the first other thread that does.
// When another thread first uses the device, it knows what the main one knows, as after std::thread's
// constructor. When that thread has ended, the main thread learns its knowledge at its own next use of the
// device, as after join. Threads started one after another without such a use in between count as siblings.
// Barriers and other synchronisation between host threads imply no order here; collectives and streams do.
#pragma once

#include <memory>
#include <string>

#include "runtime/emulated/access_set.h"
#include "runtime/emulated/checker.h"
#include "runtime/emulated/cuda_api.h"
#include "runtime/emulated/vector_clock.h"

namespace braid::emulated {

class DeclaredStep;
class StepRecord;

class HostThread {
 public:
  HostThread();
  ~HostThread();

  int device = 0;
  std::string
      label;  // of its next operations, and the node of the program's table to which they belong; -1: to none
  int node = -1;
  std::shared_ptr<const DeclaredStep> declared;  // step of the plan to which its next operations belong
  int last_error = 0;                            // cudaError_t
  StepRecord* step = nullptr;                    // null: none
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  // The operations that this thread knows to have finished, as counts of enqueued work by stream.
  VectorClock issued;

  void set_device(int device);
  // Everything that this thread follows, including ended threads.
  const VectorClock& now();
  // Adds what it has waited for.
  void follow(const VectorClock& clock);
  // Host code of this thread accesses pinned memory: an operation, together with what else it does before its
  // next call. Atomic accesses are none: that is how host code polls what a copy may be writing. False if the
  // memory is not live.
  bool touch_pinned(uintptr_t address, size_t size, AccessKind kind);
  // Ends that operation.
  void flush();
  // Begins an operation that the host thread does itself.
  Checker::Operation begin(std::string name);

 private:
  void update(const VectorClock* followed);

  AccessSet accesses_;
  bool touched_ = false;

  LogicalThread id_;
  VectorClock clock_;
  bool main_ = false;  // is the main one, or was until the process's own thread came
};

HostThread& host_thread();
// Null if the calling thread has not used the device, or ends.
HostThread* known_host_thread();

}  // namespace braid::emulated
