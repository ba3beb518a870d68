#include "analysis/exposure.h"

namespace braid::analysis {

Time walk_exposure(const Problem& problem, const AdjacentSwaps& order, int collective) {
  const Collective& c = problem.collectives[static_cast<std::size_t>(collective)];
  Time exposed = c.cost.time;
  bool started = false;
  for (int p = order.position(c.start); p < problem.size(); ++p) {
    for (const Step& s : problem.steps_of(order.at(p))) {
      if (!started) {
        started = s.kind == Step::Kind::start && s.collective == collective;
        if (started && s.blocking) return exposed;
        continue;
      }
      if (s.kind == Step::Kind::compute) exposed -= s.work;
      if (s.kind == Step::Kind::start && s.blocking) return exposed;
      if (s.kind != Step::Kind::wait) continue;
      const Collective& other = problem.collectives[static_cast<std::size_t>(s.collective)];
      const bool later = other.channel == c.channel && order.position(other.start) >= order.position(c.start);
      if (s.collective == collective || later) return exposed;
    }
  }
  return exposed;
}

}  // namespace braid::analysis
