#include "passes/inductor/raise_comms.h"

#include <algorithm>
#include <deque>
#include <ranges>

#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

using namespace analysis;

bool is_plain_start(const Problem& p, NodeId node) {
  const std::span<const Step> steps = p.steps_of(node);
  return steps.size() == 1 && steps[0].kind == Step::Kind::start && !steps[0].blocking;
}

}  // namespace

bool RaiseComms::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context, [](Reordering& r) {
    r.freedom.waits = false;
    const Problem& p = r.problem;
    Order reversed;
    std::deque<NodeId> held;                    // later ones in front
    IdVector<NodeId, int> needs(p.nodes(), 0);  // how many held starts depend on this node
    const auto let_go = [&] {
      const NodeId start = held.front();
      held.pop_front();
      for (NodeId before : p.predecessors(start)) --needs[before];
      reversed.push_back(start);
    };
    for (const NodeId n : std::views::reverse(p.nodes())) {
      // Another start in between stays below this one: the held starts go up together, in their order.
      if (!is_plain_start(p, n)) {
        while (needs[n] > 0) let_go();
        if (r.starts(n)) {
          while (!held.empty()) let_go();
        }
        reversed.push_back(n);
        continue;
      }
      held.push_back(n);
      for (NodeId before : p.predecessors(n)) ++needs[before];
    }
    while (!held.empty()) let_go();
    std::reverse(reversed.begin(), reversed.end());
    return reversed;
  });
}

}  // namespace braid::passes
