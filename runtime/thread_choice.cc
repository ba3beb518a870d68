#include "runtime/thread_choice.h"

#include <time.h>

#include <algorithm>

#include "runtime/comm/futex.h"

namespace braid::rt {
namespace {

int64_t processor_time() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace

void ThreadChoice::took(int64_t duration_ns, int64_t lost_ns) {
  if (trying_) {
    trying_ = false;
    if (duration_ns < best_ - best_ / 64) {
      team_ = !team_;
      best_ = duration_ns;
      pause_ = kFewest;
    } else {
      pause_ = std::min(2 * pause_, kMost);
    }
    left_ = pause_;
    return;
  }
  best_ = best_ == 0 ? duration_ns : best_ + (duration_ns - best_) / 4;
  const bool loses = lost_ns > duration_ns / 16;
  if (team_ && !loses) {
    pause_ = left_ = kFewest;
    return;
  }
  if (pause_ == 0) pause_ = left_ = kFewest;
  trying_ = --left_ <= 0;
}

TimedStep::TimedStep(ThreadChoice& choice)
    : choice_(choice), begin_(monotonic_ns()), processor_begin_(processor_time()) {}

TimedStep::~TimedStep() {
  const int64_t duration = monotonic_ns() - begin_;
  choice_.took(duration, duration - (processor_time() - processor_begin_));
}

}  // namespace braid::rt
