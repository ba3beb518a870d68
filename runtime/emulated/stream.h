// Streams, events and devices of the emulated CUDA runtime.
//
// A stream is a host thread with a queue of Tasks. A task that touches device memory is an operation for the
// checker.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/emulated/access_set.h"
#include "runtime/emulated/checker.h"
#include "runtime/emulated/cuda_api.h"

namespace braid::emulated {

// One cudaEventRecord: done when the stream reaches it.
struct Recording {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  VectorClock clock;  // once done
  std::chrono::steady_clock::time_point time;

  void finish(const VectorClock& at);
  void wait();
  bool is_done();
};

struct Device;
class DeclaredStep;

// The context of a task that runs on its stream.
struct TaskContext {
  CUstream_st& stream;
  AccessSet& accesses;
  VectorClock& clock;  // the stream's
  std::string label;
};

// Returns false if the stream has failed (the task has reported why); later tasks on this device are not run.
using Task = std::function<bool(TaskContext&)>;

}  // namespace braid::emulated

// cudaStream_t points to one of these.
struct CUstream_st {
  CUstream_st(braid::emulated::Device& device, int ordinal, unsigned flags, int priority);
  ~CUstream_st();  // runs what is queued

  // May be called on any host thread. `asynchronous` tasks may wait for other ranks: the deterministic mode
  // does not wait for them. `if_failed` runs instead of the task if the device has failed before.
  void enqueue(braid::emulated::Task task, bool asynchronous = false,
               std::function<void()> if_failed = nullptr);
  // Waits until everything enqueued before has run, and makes the calling host thread follow it.
  cudaError_t synchronize();
  // Waits as well, but implies no order.
  void wait_until_idle();
  bool idle();
  braid::emulated::VectorClock clock_when_idle();
  std::shared_ptr<braid::emulated::Recording> record();

  braid::emulated::Device& device;
  const int ordinal;
  const unsigned flags;
  const int priority;
  const braid::emulated::LogicalThread logical_thread;

  // Call from the stream's own tasks: the logical thread for block `block` of its kernels.
  braid::emulated::LogicalThread logical_thread_of_block(unsigned block);

 private:
  struct Queued {
    braid::emulated::Task task;
    std::function<void()> if_failed;
    braid::emulated::VectorClock host_clock;
    std::string label;
    std::shared_ptr<const braid::emulated::DeclaredStep> step;
  };
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  uint64_t enqueued_ = 0, finished_ = 0, pending_asynchronous_ = 0;
  bool closing_ = false;
  braid::emulated::VectorClock clock_;  // as of the last finished task
  std::mt19937_64 delays_;
  std::vector<braid::emulated::LogicalThread> block_threads_;
  std::thread worker_;
};

// cudaEvent_t points to one of these.
struct CUevent_st {
  unsigned flags = 0;
  std::mutex mutex;
  std::shared_ptr<braid::emulated::Recording> latest;  // null: never recorded
};

namespace braid::emulated {

struct Fault;

struct Device {
  int index = 0;
  std::mutex mutex;
  std::vector<CUstream_st*> streams;    // live ones, including the legacy stream
  CUstream_st* legacy = nullptr;        // stream 0, made on first use
  std::atomic<int> error{cudaSuccess};  // sticky, as after a fault on a GPU

  void fail(cudaError_t e);
};

// The calling host thread's current device.
Device& current_device();
Device& device_at(int index);
bool valid_device(int index);

// The stream of a handle, including 0 and the special handles; null if there is none.
CUstream_st* find_stream(cudaStream_t handle);
CUevent_st* find_event(cudaEvent_t handle);
CUevent_st* make_event(unsigned flags);
bool destroy_event(CUevent_st* event);  // false: no such event

// Enqueues a function that accesses device memory through `TaskContext::accesses`, as one operation called
// `name`. The function returns null or why it failed.
cudaError_t enqueue_operation(CUstream_st& stream, std::string name,
                              std::function<std::unique_ptr<Fault>(TaskContext&)> run);
// Reports the finding and marks the device as failed.
void report_fault(TaskContext& context, const std::string& name, const Fault& fault);

// Records the error for cudaGetLastError and returns it.
cudaError_t result(cudaError_t error);

}  // namespace braid::emulated
