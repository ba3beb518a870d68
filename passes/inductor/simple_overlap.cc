#include "passes/inductor/simple_overlap.h"

#include "passes/inductor/bubble.h"

namespace braid::passes {

using namespace analysis;

bool SimpleOverlap::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context, [](Reordering& r) {
    const LiveBytes live(r.memory, true);
    return within_cap(r, live_limit(r, 0), [&](std::int64_t limit) {
      const Problem& p = r.problem;
      LiveOrder order(&live, identity_order(p.nodes()));
      Bubble bubble(r, order, limit);
      for (CollectiveId c : p.collectives.ids()) {
        const NodeId start = p.collectives[c].start;
        Segment s{order.position(start), order.position(start)};
        while (s.first.index > 0 && !r.communicates(order.at(s.first - 1)) && !bubble.needs_node_before(s) &&
               bubble.up(s)) {
        }
      }
      for (const CollectiveId c : std::views::reverse(p.collectives.ids())) {
        const Collective& collective = p.collectives[c];
        if (!collective.wait.valid()) continue;
        Segment s{order.position(collective.wait), order.position(collective.wait)};
        if (collective.release.valid() && order.position(collective.release) == s.last + 1) ++s.last;
        while ((s.last + 1).index < p.size() && !r.waits(order.at(s.last + 1)) &&
               !bubble.is_needed_by_node_behind(s) && bubble.down(s)) {
        }
      }
      return order.order();
    });
  });
}

}  // namespace braid::passes
