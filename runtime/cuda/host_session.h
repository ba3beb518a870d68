// One rank of a program for host code that has no CUDA of its own: device, communicator, instance and stream,
// its steps, its waits for the device and for other ranks, and its errors. A session (runtime/cuda_session.h)
// is one; a whole run from host memory (host_run.cc) copies to and from one around its steps.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "runtime/cuda/api.h"
#include "runtime/cuda/failure.h"
#include "runtime/cuda/host_comm.h"
#include "runtime/cuda_host.h"

namespace braid::rt::cuda {

class HostSession {
 public:
  struct Options {
    const BraidCudaProgram* program = nullptr;
    const void* weights = nullptr;
    uint64_t weights_bytes = 0;
    const void* rank_weights = nullptr;
    uint64_t rank_weights_bytes = 0;
    BraidCudaHostPeers peers = {};
    int device = -1;           // negative: which `peers.local_rank` says
    bool own_process = false;  // the other ranks are in processes of their own
    int64_t timeout_ms = -1;   // of a step, and of the ranks' meeting; negative: none
    void (*progress)(void* user, uint64_t done, uint64_t total) = nullptr;
    void* progress_user = nullptr;
  };

  // `stream`: of the caller, or null: the session makes one.
  explicit HostSession(const Options& options, cudaStream_t stream = nullptr)
      : options_(options),
        program_(*options.program),
        peers_(options.peers),
        rank_(peers_.rank),
        stream_(stream) {}
  HostSession(const HostSession&) = delete;
  HostSession& operator=(const HostSession&) = delete;
  // Derived classes call release_instance() in their destructors: their members, such as device memory, end
  // before this destructor runs. They free what a step uses only if it is not abandoned().
  ~HostSession() {
    release_instance();
    if (own_stream_ && !abandoned()) (void)cudaStreamDestroy(stream_);
    comm_.release(status_ == BRAID_OK, giving_up());
  }

  BraidStatus status() const { return status_; }
  const std::string& message() const { return message_; }
  bool by_itself() const { return !consequence_; }

  // Makes all that a step needs and meets the other ranks. A rank that cannot begin must not be waited for in
  // a step: one that knows its dimensions (`prepares`) prepares before it meets them.
  bool open(bool prepares = false, const int64_t* dims = nullptr) {
    return make() && (!prepares || ok(program_.prepare(instance_, dims))) && has_stream() &&
           all_at(1, options_.timeout_ms);
  }
  int device() const { return device_; }
  cudaStream_t stream() const { return stream_; }

 protected:
  using Clock = std::chrono::steady_clock;
  static constexpr uint64_t kFinished = UINT64_MAX;  // progress

  bool ok(cudaError_t e, const char* call) {
    return e == cudaSuccess || fail(status_of(e), std::string(call) + ": " + cudaGetErrorString(e));
  }
  bool ok(ncclResult_t e, const char* call) {
    return e == ncclSuccess || fail(BRAID_COMM_ERROR, std::string(call) + ": " + ncclGetErrorString(e));
  }
  bool ok(BraidStatus e) {
    if (e == BRAID_COMM_ERROR) return fail_together(program_.last_error(instance_));
    return e == BRAID_OK || fail(e, program_.last_error(instance_));
  }
  bool fail(BraidStatus status, const std::string& message, bool consequence = false) {
    note(status, message);
    consequence_ = consequence;
    peers_.failed(peers_.user, message.c_str(), consequence);
    return false;
  }
  // In messages: several ranks are threads of this process.
  bool names_ranks() const { return !options_.own_process && program_.ranks > 1; }
  // Records an error without ending this rank's part.
  bool note(BraidStatus status, const std::string& message) {
    status_ = status;
    message_ = names_ranks() ? "rank " + std::to_string(rank_) + ": " + message : message;
    return false;
  }
  // Reports a failure that another rank may have caused.
  bool fail_together(const std::string& message, bool consequence = false) {
    char text[kText] = "";
    const int found = peers_.missing(peers_.user, overdue(), text, sizeof text);
    const bool missing = found > 0;  // negative: the others wait for this rank
    const bool said = found == 0 || message.find(text) != std::string::npos;
    // If one rank fails in `create`, all ranks fail because of it.
    const bool after = instance_ == nullptr && peers_.lost(peers_.user) != 0;
    return fail(BRAID_COMM_ERROR, said ? message : message + ": " + text, consequence || missing || after);
  }

  // When to stop waiting for other ranks: one is lost, or the time is over, which begins now.
  std::function<bool()> giving_up() const {
    return [this, begin = Clock::now()] {
      return peers_.lost(peers_.user) != 0 ||
             (options_.timeout_ms >= 0 &&
              Clock::now() - begin > std::chrono::milliseconds(options_.timeout_ms));
    };
  }

  // Device, communicator and instance.
  bool make() {
    int devices = 0;
    if (!ok(cudaGetDeviceCount(&devices), "cudaGetDeviceCount")) return false;
    device_ = options_.device >= 0 ? options_.device : peers_.local_rank % devices;
    if (device_ >= devices) {
      return fail(BRAID_INVALID_ARGUMENT, "there is no device " + std::to_string(device_) + ", but " +
                                              std::to_string(devices) +
                                              (devices == 1 ? " device" : " devices"));
    }
    return ok(cudaSetDevice(device_), "cudaSetDevice") && make_comm() && create();
  }

  bool all_at(uint64_t progress, int64_t timeout_ms) {
    char text[kText] = "";
    peers_.reached(peers_.user, progress);
    return peers_.await_all(peers_.user, progress, timeout_ms, text, sizeof text) != 0 ||
           fail(BRAID_COMM_ERROR, text, true);
  }

  // In milliseconds, how long this many steps may take together.
  int64_t time_of(int steps) const {
    // practically without end, and may be added to a time
    constexpr int64_t kYearMs = 365LL * 24 * 3600 * 1000;
    const int64_t count = std::max(steps, 1);
    return options_.timeout_ms < 0 ? kYearMs : std::min(options_.timeout_ms, kYearMs / count) * count;
  }

  // Waits for the latest `steps` steps. A step that is overdue has failed if a rank is missing; otherwise all
  // of them may together take `steps` times the time-out. It looks at short intervals, because a lost rank is
  // known here before the step is overdue.
  bool await(int steps = 1) {
    wait_for(time_of(steps));
    for (;;) {
      const BraidStatus e = program_.synchronize(instance_, kLookMs);
      if (e == BRAID_OK) return running_ = false, wait_no_more(), true;
      if (program_.status(instance_) != BRAID_OK) return ok(e);  // otherwise it is only not done yet
      if (overdue())
        return fail_together("the step is not done after " + std::to_string(options_.timeout_ms) + " ms");
    }
  }

  // Enqueues a step; an error ends this rank's part only if the caller says so.
  BraidStatus begin_step(const void* const* inputs, void* const* outputs, cudaStream_t stream) {
    running_ = true;
    if (const BraidStatus e = program_.run(instance_, inputs, outputs, stream); e != BRAID_OK) return e;
    ++steps_;
    peers_.reached(peers_.user, ++progress_);
    return BRAID_OK;
  }
  // Waits for all steps that have begun, and for the stream.
  bool settle() {
    if (!await(steps_) || !ok(cudaStreamSynchronize(stream_), "cudaStreamSynchronize")) return false;
    steps_ = 0;
    return true;
  }
  cudaError_t copy_on_stream(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    return bytes == 0 ? cudaSuccess : cudaMemcpyAsync(to, from, bytes, kind, stream_);
  }
  // The device may still run work that uses this rank's memory and stream, and freeing them would wait
  // without end. They are left to the end of the process, which is this rank's own.
  bool abandoned() const { return options_.own_process && status() != BRAID_OK && running_; }

  void release_instance() {
    if (instance_ != nullptr) program_.destroy(instance_);
    instance_ = nullptr;
  }

  const Options options_;
  const BraidCudaProgram& program_;
  const BraidCudaHostPeers peers_;
  const int rank_;
  int device_ = 0;
  HostComm comm_;
  BraidCudaInstance* instance_ = nullptr;
  cudaStream_t stream_;
  int steps_ = 0;         // since the last wait
  bool running_ = false;  // steps that may not be done

 private:
  static constexpr int kLookMs = 50;  // between two looks at the other ranks
  static constexpr size_t kText = 4096;

  // From now on a wait is overdue after this time.
  void wait_for(int64_t ms) { question_ = Clock::now() + std::chrono::milliseconds(ms); }
  void wait_no_more() { question_ = Clock::time_point::max(); }
  bool overdue() const { return Clock::now() > question_; }

  // The callback of BraidCudaCreateInfo. It reports missing ranks only after a rank is lost or a wait is
  // overdue.
  static int missing(void* user, int step_overdue, char* text, uint64_t bytes) {
    HostSession& self = *static_cast<HostSession*>(user);
    const BraidCudaHostPeers& peers = self.peers_;
    if (step_overdue != 0) self.question_ = Clock::time_point::min();
    const bool overdue = self.overdue();
    return overdue || lost(user) != 0 ? peers.missing(peers.user, overdue, text, bytes) : 0;
  }
  static void device_at(void* user, uint64_t step, uint64_t collectives) {
    const BraidCudaHostPeers& peers = static_cast<const HostSession*>(user)->peers_;
    peers.device_at(peers.user, step, collectives);
  }
  static int lost(void* user) {
    const BraidCudaHostPeers& peers = static_cast<const HostSession*>(user)->peers_;
    return peers.lost(peers.user);
  }

  bool has_stream() {
    if (stream_ != nullptr) return true;
    own_stream_ = ok(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return own_stream_;
  }

  bool make_comm() {
    ncclUniqueId id = {};
    char text[kText] = "";
    if (rank_ == 0 && !ok(ncclGetUniqueId(&id), "ncclGetUniqueId")) return false;
    if (peers_.broadcast(peers_.user, &id, sizeof id, text, sizeof text) == 0)
      return fail(BRAID_COMM_ERROR, text, true);
    const ncclResult_t e = comm_.make(program_.ranks, id, rank_, giving_up());
    return e == ncclSuccess ||
           fail_together(std::string("the communicator cannot be made: ") +
                             (e == ncclInProgress ? "ranks are missing" : ncclGetErrorString(e)),
                         e == ncclInProgress);
  }

  bool create() {
    BraidCudaCreateInfo info = {};
    info.abi_version = BRAID_CUDA_ABI_VERSION;
    info.struct_size = sizeof(info);
    info.weights = options_.weights;
    info.weights_bytes = options_.weights_bytes;
    info.rank_weights = options_.rank_weights;
    info.rank_weights_bytes = options_.rank_weights_bytes;
    info.comm = comm_.get();
    info.progress = options_.progress;
    info.progress_user = options_.progress_user;
    info.missing = missing;
    info.lost = lost;
    info.device_at = device_at;
    info.missing_user = this;
    info.timeout_ms = options_.timeout_ms;
    wait_for(time_of(1));
    if (!ok(program_.create(&info, &instance_))) return false;
    wait_no_more();
    return true;
  }

  bool own_stream_ = false;
  uint64_t progress_ = 1;
  BraidStatus status_ = BRAID_OK;
  Clock::time_point question_ = Clock::time_point::max();  // from when on a wait asks for missing ranks
  bool consequence_ = false;                               // of another rank's failure
  std::string message_;
};

}  // namespace braid::rt::cuda
