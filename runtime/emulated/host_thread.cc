#include "runtime/emulated/host_thread.h"

#include <mutex>

namespace braid::emulated {
namespace {

struct Shared {
  std::mutex mutex;
  HostThread* main = nullptr;
  VectorClock main_clock;  // the main thread's, as of its last use of the device
  VectorClock ended;       // of all threads that ended
};

Shared& shared() {
  static Shared* instance = new Shared;
  return *instance;
}

std::string text_of(int device) { return "the host thread of rank " + std::to_string(device); }

}  // namespace

HostThread::HostThread() : id(checker().add_thread(text_of(0))) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  if (s.main == nullptr) s.main = this;
  clock = s.main_clock;
}

HostThread::~HostThread() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  s.ended.join(clock);
}

void HostThread::set_device(int new_device) {
  if (new_device == device) return;
  device = new_device;
  checker().rename_thread(id, text_of(device));
}

VectorClock& HostThread::now() {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  if (s.main == this) {
    clock.join(s.ended);
    s.main_clock = clock;
  }
  return clock;
}

HostThread& host_thread() {
  thread_local HostThread thread;
  return thread;
}

}  // namespace braid::emulated
