#include "passes/overlap/simple_overlap.h"

#include "passes/overlap/bubble.h"

namespace braid::passes {

bool SimpleOverlap::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context, [](Reordering& r) {
    return within_cap(r, live_limit(r, 0), [&](std::int64_t limit) {
      const Problem& p = r.problem;
      AdjacentSwaps order(p, r.memory);
      Bubble bubble(r, order, limit);
      for (std::size_t c = 0; c < p.collectives.size(); ++c) {
        const int start = p.collectives[c].start;
        Segment s{order.position(start), order.position(start)};
        Limit& why = r.limits[c];
        while (true) {
          if (s.first == 0) {
            why = {LimitReason::boundary, {}};
          } else if (const int before = order.at(s.first - 1); r.communicates(before)) {
            why = {LimitReason::order, r.name(before)};
          } else if (bubble.needs_node_before(s)) {
            why = {LimitReason::data, r.name(before)};
          } else if (why = bubble.up(s); why.reason == LimitReason::none) {
            continue;
          }
          break;
        }
      }
      for (std::size_t c = p.collectives.size(); c-- > 0;) {
        const Collective& collective = p.collectives[c];
        if (collective.wait < 0) continue;
        Segment s{order.position(collective.wait), order.position(collective.wait)};
        if (collective.release >= 0 && order.position(collective.release) == s.last + 1) ++s.last;
        while (s.last + 1 < p.size() && !r.waits(order.at(s.last + 1)) &&
               !bubble.is_needed_by_node_behind(s) && bubble.down(s).reason == LimitReason::none) {
        }
      }
      return std::vector<int>(order.order().begin(), order.order().end());
    });
  });
}

}  // namespace braid::passes
