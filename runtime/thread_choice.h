// Whether the steps of an instance are faster on its team or on the calling thread alone. Beside busy
// processes a team may lose: its threads compete with each other for processors, and more of them make memory
// no faster. So while steps on the team lose time, the other way is tried now and then, and the faster one is
// kept. On an idle machine nothing is tried.
#pragma once

#include <cstdint>

namespace braid::rt {

class ThreadChoice {
 public:
  // Whether the next step should use the team.
  bool team() const { return trying_ ? !team_ : team_; }
  // Reports a step that took this way: its duration, and for how long of that the caller had no processor.
  void took(int64_t duration_ns, int64_t lost_ns);

 private:
  static constexpr int kFewest = 8, kMost = 128;

  bool team_ = true;     // the better way, as far as known
  bool trying_ = false;  // the next step takes the other way
  int64_t best_ = 0;     // a mean duration of recent steps that took the better way
  int left_ = 0;         // steps until the other way is tried
  int pause_ = 0;        // such steps from one try to the next
};

// One step: notes it when it ends.
class TimedStep {
 public:
  explicit TimedStep(ThreadChoice& choice);
  ~TimedStep();
  TimedStep(const TimedStep&) = delete;
  TimedStep& operator=(const TimedStep&) = delete;

 private:
  ThreadChoice& choice_;
  const int64_t begin_, processor_begin_;
};

}  // namespace braid::rt
