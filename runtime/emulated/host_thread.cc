#include "runtime/emulated/host_thread.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <utility>

#include "runtime/emulated/host_variables.h"

namespace braid::emulated {
namespace {

struct Shared {
  std::mutex mutex;
  HostThread* main = nullptr;
  VectorClock main_clock;  // the main thread's, as of its last use of the device or its end
  VectorClock ended;       // of all threads that ended
};

Shared& shared() {
  static Shared* instance = new Shared;
  return *instance;
}

bool is_thread_of_process() { return syscall(SYS_gettid) == getpid(); }

std::string text_of(int device) { return "the host thread of rank " + std::to_string(device); }

}  // namespace

static __thread HostThread* known __attribute__((tls_model("initial-exec"))) = nullptr;

HostThread::HostThread() : id_(checker().add_thread(text_of(0))) {
  known = this;
  know_host_thread();
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  const bool process = is_thread_of_process();
  // The process's initial thread was not started by another one, so it inherits no live thread's clock.
  if (!process || s.main == nullptr) clock_ = s.main_clock;
  main_ = process || s.main == nullptr;
  if (main_) s.main = this;
}

HostThread::~HostThread() {
  flush();
  known = nullptr;
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  s.ended.join(clock_);
  if (s.main != this) return;
  s.main_clock.join(clock_);
  s.main = nullptr;
}

void HostThread::set_device(int new_device) {
  if (new_device == device) return;
  device = new_device;
  checker().rename_thread(id_, text_of(device));
}

// Publishes the main thread's clock after each change, for threads that begin later.
void HostThread::update(const VectorClock* followed) {
  flush();
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  if (followed != nullptr) clock_.join(*followed);
  if (!main_) return;
  clock_.join(s.ended);
  if (s.main == this) s.main_clock = clock_;
}

const VectorClock& HostThread::now() {
  update(nullptr);
  return clock_;
}

void HostThread::follow(const VectorClock& clock) { update(&clock); }

bool HostThread::touch_pinned(uintptr_t address, size_t size, AccessKind kind) {
  if (kind == AccessKind::kAtomic || kind == AccessKind::kAtomicStore) return true;
  touched_ = true;
  return accesses_.record(address, size, kind) == nullptr;
}

void HostThread::flush() {
  if (!std::exchange(touched_, false)) return;
  const Checker::Operation operation = checker().begin(id_, clock_, "host code", label);
  checker().finish(operation, accesses_.finish());
}

Checker::Operation HostThread::begin(std::string name) {
  update(nullptr);
  Checker::Operation operation = checker().begin(id_, clock_, std::move(name), label);
  update(nullptr);
  return operation;
}

HostThread& host_thread() {
  thread_local const auto thread = std::make_unique<HostThread>();  // as block_runner()
  return *thread;
}

HostThread* known_host_thread() { return known; }

}  // namespace braid::emulated
