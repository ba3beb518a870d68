#include <cstdio>
#include <memory>
#include <new>
#include <string>

#include "runtime/cuda/api.h"
#include "runtime/cuda/host_session.h"
#include "runtime/cuda/host_threads.h"
#include "runtime/cuda_session.h"

namespace braid::rt::cuda {

// Makes a device the thread's current one for its lifetime.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    if (cudaGetDevice(&before_) != cudaSuccess || before_ == device) return;
    changed_ = cudaSetDevice(device) == cudaSuccess;
  }
  ~CurrentDevice() {
    if (changed_) (void)cudaSetDevice(before_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

// The peers of a program's only rank; a base, since HostSession asks them until its end.
struct Alone {
  std::unique_ptr<HostThreads> threads;
};

}  // namespace braid::rt::cuda

struct BraidCudaSession final : private braid::rt::cuda::Alone, public braid::rt::cuda::HostSession {
  using HostThreads = braid::rt::cuda::HostThreads;

  // `alone`: the peers, if the caller gave none.
  BraidCudaSession(const BraidCudaSessionInfo& info, std::unique_ptr<HostThreads> alone)
      : Alone{std::move(alone)},
        HostSession(options_of(info, threads.get()), static_cast<cudaStream_t>(info.stream)) {}

  ~BraidCudaSession() {
    if (instance_ != nullptr && status() == BRAID_OK && await(steps_) && threads == nullptr)
      (void)all_at(kFinished, time_of(1));
    release_instance();
    if (mark_ != nullptr && !abandoned()) (void)cudaEventDestroy(mark_);
  }

  const char* last_error() const { return text_.c_str(); }

  BraidStatus prepare(const int64_t* dims) { return told(program_.prepare(instance_, dims)); }

  BraidStatus run(const void* const* inputs, void* const* outputs, cudaEvent_t done) {
    if (const BraidStatus e = told(begin_step(inputs, outputs, stream_)); e != BRAID_OK) return e;
    return done == nullptr ? BRAID_OK : told(cudaEventRecord(done, stream_), "cudaEventRecord");
  }

  BraidStatus state() { return told(program_.status(instance_)); }

  BraidStatus wait() { return settle() ? BRAID_OK : failed(); }

  BraidStatus copy(void* to, const void* from, uint64_t bytes, BraidCudaCopy kind) {
    return told(copy_on_stream(to, from, bytes, static_cast<cudaMemcpyKind>(kind)), "cudaMemcpyAsync");
  }

  BraidStatus follow(cudaStream_t other) {
    if (other == stream_) return BRAID_OK;
    if (mark_ == nullptr &&
        !ok(cudaEventCreateWithFlags(&mark_, cudaEventDisableTiming), "cudaEventCreateWithFlags"))
      return failed();
    if (cudaEventRecord(mark_, other) != cudaSuccess) {
      (void)cudaGetLastError();
      text_ = "a stream that a tensor names is not one of device " + std::to_string(device_);
      return BRAID_INVALID_ARGUMENT;
    }
    return told(cudaStreamWaitEvent(stream_, mark_, 0), "cudaStreamWaitEvent");
  }

 private:
  static Options options_of(const BraidCudaSessionInfo& info, HostThreads* alone) {
    Options options;
    options.program = info.program;
    options.weights = info.weights;
    options.weights_bytes = info.weights_bytes;
    options.rank_weights = info.rank_weights;
    options.rank_weights_bytes = info.rank_weights_bytes;
    options.peers = alone != nullptr ? alone->peers(0) : *info.peers;
    options.own_process = alone == nullptr;
    options.device = info.device;
    options.timeout_ms = info.timeout_ms;
    return options;
  }

  // Errors of the arguments leave the session as it was; all others end this rank's part.
  BraidStatus told(BraidStatus e) {
    if (e == BRAID_OK) return e;
    if (e == BRAID_BAD_SIZE || e == BRAID_INVALID_ARGUMENT) {
      text_ = program_.last_error(instance_);
      return e;
    }
    (void)ok(e);
    return failed();
  }
  BraidStatus told(cudaError_t e, const char* call) { return ok(e, call) ? BRAID_OK : failed(); }
  BraidStatus failed() {
    text_ = message();
    return status();
  }

  cudaEvent_t mark_ = nullptr;
  std::string text_;
};

// The table's functions, in a namespace of their own: all sources of runtime/cuda are one translation unit.
namespace braid::rt::cuda::session_calls {
namespace {

BraidStatus open_session(const BraidCudaSessionInfo* info, BraidCudaSession** out, char* message,
                         uint64_t message_bytes) {
  const auto report = [&](BraidStatus status, const char* text) {
    if (message != nullptr && message_bytes > 0) std::snprintf(message, message_bytes, "%s", text);
    return status;
  };
  *out = nullptr;
  if (info == nullptr || info->struct_size != sizeof(BraidCudaSessionInfo) || info->program == nullptr)
    return report(BRAID_INVALID_ARGUMENT,
                  "braid_cuda_session_calls: made for another version of the interface");
  if (info->peers == nullptr && info->program->ranks != 1)
    return report(BRAID_INVALID_ARGUMENT, "a program of several ranks needs its peers");
  int before = 0;
  const bool known = cudaGetDevice(&before) == cudaSuccess;
  BraidStatus status = BRAID_OUT_OF_MEMORY;
  try {
    auto alone = info->peers == nullptr ? std::make_unique<HostThreads>(1) : nullptr;
    auto session = std::make_unique<BraidCudaSession>(*info, std::move(alone));
    if (session->open()) {
      *out = session.release();
      status = report(BRAID_OK, "");
    } else {
      status = report(session->status(), session->message().c_str());
    }
  } catch (const std::bad_alloc&) {
    report(status, "no host memory for a session");
  }
  if (known) (void)cudaSetDevice(before);
  return status;
}

void close_session(BraidCudaSession* session) {
  const CurrentDevice here(session->device());
  delete session;
}

int32_t device(const BraidCudaSession* session) { return session->device(); }
void* stream(const BraidCudaSession* session) { return session->stream(); }
const char* last_error(const BraidCudaSession* session) { return session->last_error(); }

BraidStatus prepare(BraidCudaSession* session, const int64_t* dims) {
  const CurrentDevice here(session->device());
  return session->prepare(dims);
}
BraidStatus run(BraidCudaSession* session, const void* const* inputs, void* const* outputs, void* done) {
  const CurrentDevice here(session->device());
  return session->run(inputs, outputs, static_cast<cudaEvent_t>(done));
}
BraidStatus state(BraidCudaSession* session) { return session->state(); }
BraidStatus wait(BraidCudaSession* session) {
  const CurrentDevice here(session->device());
  return session->wait();
}
BraidStatus copy(BraidCudaSession* session, void* to, const void* from, uint64_t bytes, BraidCudaCopy kind) {
  const CurrentDevice here(session->device());
  return session->copy(to, from, bytes, kind);
}
BraidStatus follow(BraidCudaSession* session, void* stream) {
  const CurrentDevice here(session->device());
  return session->follow(static_cast<cudaStream_t>(stream));
}

int check_stream(int32_t device, void* stream) {
  const CurrentDevice here(device);
  cudaEvent_t event = nullptr;
  cudaError_t e = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (e != cudaSuccess) return e;
  e = cudaEventRecord(event, static_cast<cudaStream_t>(stream));
  (void)cudaEventDestroy(event);
  (void)cudaGetLastError();
  return e;
}
void* allocate(int32_t device, uint64_t bytes) {
  const CurrentDevice here(device);
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes > 0 ? bytes : 1) == cudaSuccess) return memory;
  (void)cudaGetLastError();
  return nullptr;
}
void release(int32_t device, void* memory) {
  const CurrentDevice here(device);
  (void)cudaFree(memory);
}
void* make_event(int32_t device) {
  const CurrentDevice here(device);
  cudaEvent_t event = nullptr;
  return cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess ? event : nullptr;
}
void release_event(int32_t device, void* event) {
  const CurrentDevice here(device);
  (void)cudaEventDestroy(static_cast<cudaEvent_t>(event));
}
int precede(int32_t device, void* event, void* stream) {
  const CurrentDevice here(device);
  return cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), static_cast<cudaEvent_t>(event), 0);
}
int read(int32_t device, void* event, void* to, const void* from, uint64_t bytes) {
  const CurrentDevice here(device);
  if (event != nullptr) {
    if (const cudaError_t e = cudaEventSynchronize(static_cast<cudaEvent_t>(event)); e != cudaSuccess)
      return e;
  }
  return bytes == 0 ? cudaSuccess : cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost);
}

}  // namespace
}  // namespace braid::rt::cuda::session_calls

extern "C" const BraidCudaSessionCalls* braid_cuda_session_calls(void) {
  namespace of = braid::rt::cuda::session_calls;
  static const BraidCudaSessionCalls calls = {sizeof(BraidCudaSessionCalls),
                                              of::open_session,
                                              of::close_session,
                                              of::device,
                                              of::stream,
                                              of::last_error,
                                              of::prepare,
                                              of::run,
                                              of::state,
                                              of::wait,
                                              of::copy,
                                              of::follow,
                                              of::check_stream,
                                              of::allocate,
                                              of::release,
                                              of::make_event,
                                              of::release_event,
                                              of::precede,
                                              of::read};
  return &calls;
}
