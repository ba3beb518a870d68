#include "analysis/exposure.h"

namespace braid::analysis {

Time walk_exposure(const Problem& problem, const LiveOrder& order, CollectiveId collective) {
  const Collective& c = problem.collectives[collective];
  Time exposed = c.cost.time;
  bool started = false;
  for (Position p = order.position(c.start); p.index < problem.size(); ++p) {
    for (const Step& s : problem.steps_of(order.at(p))) {
      if (!started) {
        started = s.kind == Step::Kind::start && s.collective == collective;
        if (started && s.blocking) return exposed;
        continue;
      }
      if (s.kind == Step::Kind::compute) exposed -= s.work;
      if (s.kind == Step::Kind::start && s.blocking) return exposed;
      if (s.kind != Step::Kind::wait) continue;
      const Collective& other = problem.collectives[s.collective];
      const bool later = other.channel == c.channel && order.position(other.start) >= order.position(c.start);
      if (s.collective == collective || later) return exposed;
    }
  }
  return exposed;
}

}  // namespace braid::analysis
