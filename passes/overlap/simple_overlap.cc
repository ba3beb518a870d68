#include "passes/overlap/simple_overlap.h"

#include "passes/overlap/bubble.h"

namespace braid::passes {

using namespace analysis;

bool SimpleOverlap::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context, [](Reordering& r) {
    return within_cap(r, live_limit(r, 0), [&](std::int64_t limit) {
      const Problem& p = r.problem;
      AdjacentSwaps order(p, r.memory);
      Bubble bubble(r, order, limit);
      for (std::size_t c = 0; c < p.collectives.size(); ++c) {
        const int start = p.collectives[c].start;
        Segment s{order.position(start), order.position(start)};
        while (s.first > 0 && !r.communicates(order.at(s.first - 1)) && !bubble.needs_node_before(s) &&
               bubble.up(s)) {
        }
      }
      for (std::size_t c = p.collectives.size(); c-- > 0;) {
        const Collective& collective = p.collectives[c];
        if (collective.wait < 0) continue;
        Segment s{order.position(collective.wait), order.position(collective.wait)};
        if (collective.release >= 0 && order.position(collective.release) == s.last + 1) ++s.last;
        while (s.last + 1 < p.size() && !r.waits(order.at(s.last + 1)) &&
               !bubble.is_needed_by_node_behind(s) && bubble.down(s)) {
        }
      }
      return std::vector<int>(order.order().begin(), order.order().end());
    });
  });
}

}  // namespace braid::passes
