// A second thread of a rank that advances its started collectives while the rank computes.
//
// The World is used by one thread at a time; with a worker, each use holds a lock, and the worker takes it
// between uses. A wait holds the lock to its end and advances everything itself, so the waiting thread
// completes what the worker has left undone. Without a worker there is no lock.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "runtime/comm/communicator.h"
#include "runtime/comm/shm_world_core.h"

namespace braid::rt::shm {

// Whether a rank has a worker. `automatic`: BRAID_COMM_WORKER decides (on, off, auto), otherwise whether
// there are more cores than compute threads.
Status wants_worker(CommWorker option, int size, int compute_threads, bool* out);

class Worker {
 public:
  static constexpr const char* kThreadName = "braid-comm";  // as debuggers and profilers show it

  explicit Worker(WorldCore& core);
  ~Worker();  // ends the thread; unfinished collectives stay unfinished
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Holds the World for the rank's own thread; does nothing without a worker.
  class Use {
   public:
    explicit Use(Worker* worker) : worker_(worker) {
      if (worker_ != nullptr) worker_->enter();
    }
    ~Use() {
      if (worker_ != nullptr) worker_->leave();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Worker* worker_;
  };

 private:
  void enter();
  void leave();
  void work();

  WorldCore& core_;
  std::mutex mutex_;
  std::atomic<bool> wanted_ = false;  // the rank's thread is waiting for the lock: yield it
  std::atomic<bool> stop_ = false;
  bool asleep_ = false;  // the worker sleeps or is about to; guarded by mutex_
  std::thread thread_;   // last member, since it uses all others
};

}  // namespace braid::rt::shm
