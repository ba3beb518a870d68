#include "passes/overlap/sink_waits_iterative.h"

#include "analysis/exposure.h"
#include "passes/overlap/bubble.h"

namespace braid::passes {

using namespace analysis;

bool SinkWaitsIterative::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context, [this](Reordering& r) {
    r.freedom.starts = false;
    return within_cap(r, live_limit(r, budget), [&](std::int64_t limit) {
      const Problem& p = r.problem;
      AdjacentSwaps order(p, r.memory);
      Bubble bubble(r, order, limit);
      for (std::size_t c = p.collectives.size(); c-- > 0;) {
        const Collective& collective = p.collectives[c];
        if (collective.wait < 0) continue;
        const Time cost = collective.cost.time;
        const Time enough{static_cast<std::int64_t>(-static_cast<double>(cost.ps) * extra_overlap)};
        Time exposed = walk_exposure(p, order, static_cast<int>(c));
        Segment s{order.position(collective.wait), order.position(collective.wait)};
        while (exposed > enough && s.last + 1 < p.size()) {
          const int behind = order.at(s.last + 1);
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
      return std::vector<int>(order.order().begin(), order.order().end());
    });
  });
}

}  // namespace braid::passes
