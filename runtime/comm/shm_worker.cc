#include "runtime/comm/shm_worker.h"

#include <pthread.h>

#include "runtime/comm/settings.h"
#include "runtime/processor.h"

namespace braid::rt::shm {
namespace {

// Checks before the worker sleeps, some tens of microseconds; and the pauses between two checks, in which the
// rank's thread may take the lock.
constexpr int kLooks = 200;
constexpr int kPauses = 20;

}  // namespace

Status wants_worker(CommWorker option, int size, int compute_threads, bool* out) {
  if (option == CommWorker::automatic) {
    if (Status chosen = worker_choice(&option); !chosen.ok()) return chosen;
  }
  const bool spare = compute_threads > 0 && processors_of_this_thread() > size * compute_threads;
  *out = size > 1 && (option == CommWorker::on || (option == CommWorker::automatic && spare));
  return {};
}

Worker::Worker(WorldCore& core) : core_(core), thread_([this] { work(); }) {
  pthread_setname_np(thread_.native_handle(), kThreadName);
}

Worker::~Worker() {
  stop_.store(true);
  core_.wake_self();
  thread_.join();
}

void Worker::enter() {
  if (mutex_.try_lock()) return;
  wanted_.store(true, std::memory_order_relaxed);
  mutex_.lock();
  wanted_.store(false, std::memory_order_relaxed);
}

// A sleeping worker may have missed what this use began, and the events for which this use slept in its
// place.
void Worker::leave() {
  const bool wake = asleep_ && core_.unfinished();
  if (wake) asleep_ = false;
  mutex_.unlock();
  if (wake) core_.wake_self();
}

void Worker::work() {
  int looks = 0;
  while (!stop_.load() && !core_.failed()) {
    if (wanted_.load(std::memory_order_relaxed)) {
      std::this_thread::yield();
      continue;
    }
    uint32_t bell = 0;
    bool unfinished = false;
    bool sleeps = false;
    {
      const std::lock_guard lock(mutex_);
      asleep_ = false;
      unfinished = core_.progress_channels();
      sleeps = !unfinished || ++looks >= kLooks;
      if (sleeps) {
        bell = core_.announce_sleep(unfinished);
        if (unfinished && core_.progress_has_news()) sleeps = false;
        asleep_ = sleeps;
      }
    }
    if (sleeps) {
      if (!stop_.load()) core_.sleep_on_bell(bell, unfinished);
      looks = 0;
      continue;
    }
    for (int i = 0; i < kPauses; ++i) cpu_pause();
  }
}

}  // namespace braid::rt::shm
