#include "passes/inductor/sink_waits_iterative.h"

#include "analysis/exposure.h"
#include "passes/inductor/bubble.h"

namespace braid::passes {

using namespace analysis;

bool SinkWaitsIterative::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context, [this](Reordering& r) {
    r.freedom.starts = false;
    const LiveBytes live(r.memory, true);
    return within_cap(r, live_limit(r, budget), [&](std::int64_t limit) {
      const Problem& p = r.problem;
      LiveOrder order(&live, identity_order(p.nodes()));
      Bubble bubble(r, order, limit);
      for (const CollectiveId c : std::views::reverse(p.collectives.ids())) {
        const Collective& collective = p.collectives[c];
        if (!collective.wait.valid()) continue;
        const Time cost = collective.cost.time;
        const Time enough{static_cast<std::int64_t>(-static_cast<double>(cost.ps) * extra_overlap)};
        Time exposed = walk_exposure(p, order, c);
        Segment s{order.position(collective.wait), order.position(collective.wait)};
        while (exposed > enough && (s.last + 1).index < p.size()) {
          const NodeId behind = order.at(s.last + 1);
          if (r.waits(behind) || (r.starts(behind) && !swap_with_collectives)) break;
          if (bubble.is_needed_by_node_behind(s)) {
            if (r.starts(behind) || s.last - s.first + 1 >= max_group) break;
            ++s.last;
            continue;
          }
          if (!bubble.down(s)) break;
          exposed -= p.compute_time(behind);
        }
      }
      return order.order();
    });
  });
}

}  // namespace braid::passes
