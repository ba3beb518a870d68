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

ThreadChoice::ThreadChoice(int threads)
    : fewest_(4 * threads), most_(64 * threads), pause_(fewest_), left_(fewest_) {}

void ThreadChoice::took(int64_t duration_ns, int64_t lost_ns) {
  if (trying_) {
    trying_ = false;
    const bool better = duration_ns < best_ - best_ / 64;
    if (better) {
      team_ = !team_;
      best_ = duration_ns;
    }
    left_ = pause_ = better ? fewest_ : std::min(2 * pause_, most_);
    return;
  }
  best_ = best_ == 0 ? duration_ns : best_ + (duration_ns - best_) / 4;
  if (!team_ || lost_ns > duration_ns / 16) {
    trying_ = --left_ <= 0;
  } else if (++left_ >= pause_) {
    left_ = pause_ = fewest_;
  }
}

TimedStep::TimedStep() : begin_(monotonic_ns()), processor_begin_(processor_time()) {}

void TimedStep::report(ThreadChoice& choice) const {
  const int64_t duration = monotonic_ns() - begin_;
  choice.took(duration, duration - (processor_time() - processor_begin_));
}

}  // namespace braid::rt
