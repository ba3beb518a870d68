// Streams, events and devices of the emulated CUDA runtime.
//
// A stream is a host thread with a queue of Tasks. A task that touches device memory is an operation for the
// checker.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/emulated/access_set.h"
#include "runtime/emulated/checker.h"
#include "runtime/emulated/cuda_api.h"

namespace braid::emulated {

class Capture;

// One cudaEventRecord: done when the stream reaches it.
struct Recording {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  VectorClock clock;   // once done
  VectorClock issued;  // what was enqueued before it, by stream
  // For an event that is recorded while its stream is captured: it never happens, and stands for these nodes.
  std::shared_ptr<Capture> capture;
  std::set<size_t> nodes;
  std::chrono::steady_clock::time_point time;

  void finish(const VectorClock& at);
  void wait();
  bool is_done();
};

struct Device;

// A thread in the checker's view: the operations of one stream, which follow each other.
struct Lane {
  LogicalThread thread;
  std::string text;  // how findings name it
  std::vector<LogicalThread> block_threads;

  explicit Lane(std::string text);
  // Returns the logical thread of block `block` of its kernels.
  LogicalThread of_block(unsigned block);
};

// The context of a task that runs on its stream.
struct TaskContext {
  CUstream_st& stream;
  Lane& lane;
  AccessSet& accesses;
  VectorClock& clock;  // the lane's
  std::string label;
  int node;  // of the program's table; -1: none
};

// Returns false if the stream has failed (the task has reported why); later tasks on this device are not run.
using Task = std::function<bool(TaskContext&)>;

// The kind of a graph's node, which an update of the graph must keep.
enum class WorkKind { kKernel, kOperation, kHostFunction, kCollective, kGraph };

struct Work {
  WorkKind kind;
  std::string name;  // in findings
  Task task;
  std::function<void()> if_failed = nullptr;  // runs instead of the task if the device has failed before
  bool asynchronous = false;  // may wait for other ranks: the deterministic mode does not wait for it
};

}  // namespace braid::emulated

// cudaStream_t points to one of these.
struct CUstream_st {
  CUstream_st(braid::emulated::Device& device, int ordinal, unsigned flags, int priority);
  ~CUstream_st();  // runs what is queued

  // May be called on any host thread. On a stream that is captured it becomes a node.
  void enqueue(braid::emulated::Work work);
  void wait_for(std::shared_ptr<braid::emulated::Recording> recording);
  // Waits until everything enqueued before has run, and makes the calling host thread follow it.
  cudaError_t synchronize();
  // Waits as well, but implies no order.
  void wait_until_idle();
  bool idle();
  braid::emulated::VectorClock clock_when_idle();
  std::shared_ptr<braid::emulated::Recording> record();
  // Between the two calls, a collective that the host has called is not on the stream yet: work that uses the
  // stream meanwhile does not follow it.
  void begin_launch(const void* by, std::string what);
  void end_launch(const void* by);
  void must_be_launched(const std::string& use);  // reports a use that comes too early

  // Null: not captured.
  std::shared_ptr<braid::emulated::Capture> capture();
  void set_capture(std::shared_ptr<braid::emulated::Capture> capture);

  // Returns the work that precedes the next work here, as counts of enqueued work by stream.
  braid::emulated::VectorClock issued();

  braid::emulated::Device& device;
  const int ordinal;
  const unsigned flags;
  const int priority;
  braid::emulated::Lane lane;

 private:
  struct Queued {
    braid::emulated::Task task;
    std::function<void()> if_failed;
    braid::emulated::VectorClock host_clock;
    std::string label;
    int node = -1;
  };
  void work();
  std::vector<CUstream_st*> implicitly_before();
  void push(braid::emulated::Task task, bool asynchronous, std::function<void()> if_failed);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  uint64_t enqueued_ = 0, finished_ = 0, pending_asynchronous_ = 0;
  bool closing_ = false;
  braid::emulated::VectorClock clock_;  // as of the last finished task
  std::map<const void*, std::string> launching_;
  std::shared_ptr<braid::emulated::Capture> capture_;
  std::mt19937_64 delays_;
  braid::emulated::VectorClock issued_;
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
// The resources that a program has made and not destroyed.
struct LiveHandles {
  std::vector<std::string> streams;
  int events = 0;
};
LiveHandles live_handles();

// Enqueues a function that accesses device memory through `TaskContext::accesses`, as one operation called
// `name`. The function returns null or why it failed.
cudaError_t enqueue_operation(CUstream_st& stream, std::string name,
                              std::function<std::unique_ptr<Fault>(TaskContext&)> run);
// Reports the finding and marks the device as failed.
void report_fault(TaskContext& context, const std::string& name, const Fault& fault);

// The error that a device which has failed gives to every call; cudaSuccess if the current one has not.
cudaError_t sticky_error();
// Records the error of the API function `call` for cudaGetLastError and returns it.
cudaError_t result(cudaError_t error, const char* call = __builtin_FUNCTION());

}  // namespace braid::emulated
