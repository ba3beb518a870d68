// The event engine of both simulators (analysis/simulator.h: one rank of a program whose ranks all do the
// same; pipeline/simulate.h: many ranks). It knows which works run concurrently on the modelled machine, how
// fast, and which ends next; the simulators decide what begins.
//
//   * A Work has `remaining` (whole picoseconds of work) and `resources`, an array of numbers below
//     `resources` of the engine (-1: none), which it occupies from its begin to its end.
//   * Time advances from one event to the next. In between every work proceeds at a constant rate. The user's
//     function  std::int64_t factor(const Work&, int sharers)  says how much longer than alone it takes, in
//     thousandths. `sharers` is the largest number of works, itself included, on one of its resources.
//   * Works that end at the same moment end in the order in which they began.
//
// A value; copies are independent and cost O(resources + running works).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/costs/time.h"
#include "ir/id_vector.h"

namespace braid::analysis {

template <class Work>
class EventEngine {
 public:
  struct Running : Work {
    std::int64_t factor;  // during the last advance
  };

  explicit EventEngine(int resources) : users_(ir::first_ids<std::int32_t>(resources), 0) {}

  Time now() const { return now_; }
  bool idle() const { return running_.empty(); }
  std::span<const Running> running() const { return running_; }  // in the order of their begin
  int users(std::int32_t resource) const { return users_[resource]; }

  void begin(const Work& work) {
    running_.push_back({work, 0});
    for (const std::int32_t r : work.resources) {
      if (r >= 0) ++users_[r];
    }
  }

  // Advances to the end of the first work, but by at most `at_most`; returns by how much. Then calls
  // ended(work) for each that is complete; it may begin others, which end at once if they have no work.
  template <class Factor, class Ended>
  Time advance(Time at_most, const Factor& factor, const Ended& ended) {
    Time elapsed = at_most;
    for (Running& w : running_) {
      w.factor = factor(w, sharers(w));
      elapsed = std::min(elapsed, stretched({w.remaining}, w.factor));
    }
    // The factors hold for the whole interval: nothing ends before all have advanced.
    bool any = false;
    for (Running& w : running_) {
      w.remaining -= std::min(w.remaining, done_in(elapsed, w.factor).ps);
      any |= w.remaining == 0;
    }
    now_ += elapsed;
    if (!any) return elapsed;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < running_.size(); ++i) {
      if (running_[i].remaining > 0) {
        if (kept != i) running_[kept] = running_[i];
        ++kept;
        continue;
      }
      const Work gone = running_[i];
      for (const std::int32_t r : gone.resources) {
        if (r >= 0) --users_[r];
      }
      ended(gone);
    }
    running_.resize(kept);
    return elapsed;
  }

  // Advances while nothing runs.
  void pass(Time elapsed) { now_ += elapsed; }

 private:
  int sharers(const Work& work) const {
    int most = 0;
    for (const std::int32_t r : work.resources) {
      if (r >= 0) most = std::max(most, users_[r]);
    }
    return most;
  }

  Time now_;
  std::vector<Running> running_;
  ir::IdVector<std::int32_t, int> users_;  // by resource
};

}  // namespace braid::analysis
