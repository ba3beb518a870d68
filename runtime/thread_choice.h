// Whether the loops of a step are faster on the instance's team or on the calling thread alone. Beside busy
// processes a team may lose: its threads compete with each other for processors, and more of them make memory
// no faster. So while most steps on the team leave their caller without work or processor for a sixteenth of
// the time, a step alone is tried now and then, and the faster way is kept. A step alone takes up to as many
// times as long as there are threads, so the more there are, the more seldom one is tried.
#pragma once

#include <cstdint>

namespace braid::rt {

class ThreadChoice {
 public:
  explicit ThreadChoice(int threads = 2);

  // Whether the next step should use the team.
  bool team() const { return trying_ ? !team_ : team_; }
  // Reports a step that took this way: its duration, and for how long of that the caller did not run, since
  // it waited for workers or had no processor.
  void took(int64_t duration_ns, int64_t lost_ns);

 private:
  bool team_ = true;     // the better way, as far as known
  bool trying_ = false;  // the next step takes the other way
  int64_t best_ = 0;     // a mean duration of recent steps that took the better way
  int fewest_, most_;    // steps from one try to the next
  int pause_, left_;     // such steps, and those until the next try
};

// Times one step.
class TimedStep {
 public:
  TimedStep();
  // Reports the step, which was not cut short.
  void report(ThreadChoice& choice) const;

 private:
  const int64_t begin_, processor_begin_;
};

}  // namespace braid::rt
