#include "passes/inductor/reorder_communication_preserving_peak_memory.h"

#include "analysis/exposure.h"
#include "passes/inductor/bubble.h"

namespace braid::passes {
namespace {

using namespace analysis;

Time scaled(Time t, double factor) { return {static_cast<std::int64_t>(static_cast<double>(t.ps) * factor)}; }

}  // namespace

bool ReorderCommunicationPreservingPeakMemory::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context, [this](Reordering& r) {
    r.freedom.waits = false;
    const LiveBytes live(r.memory, true);
    return within_cap(r, live_limit(r, budget), [&](std::int64_t limit) {
      const Problem& p = r.problem;
      LiveOrder order(&live, identity_order(p.nodes()));
      Bubble bubble(r, order, limit);
      for (CollectiveId c : p.collectives.ids()) {
        const Collective& collective = p.collectives[c];
        if (!collective.wait.valid()) continue;  // blocking: nothing can hide it
        const Time enough = Time{} - scaled(collective.cost.time, extra_overlap);
        Time exposed = walk_exposure(p, order, c);
        Segment s{order.position(collective.start), order.position(collective.start)};
        while (exposed > enough && s.first.index > 0) {
          const NodeId before = order.at(s.first - 1);
          if (r.starts(before)) break;
          if (bubble.needs_node_before(s)) {
            // A needed node comes along, except a wait: that would expose the collective that it waits for.
            if (r.waits(before) || s.last - s.first + 1 >= max_group) break;
            --s.first;
            continue;
          }
          if (!bubble.up(s)) break;
          exposed -= p.compute_time(before);
        }
      }
      return order.order();
    });
  });
}

}  // namespace braid::passes
