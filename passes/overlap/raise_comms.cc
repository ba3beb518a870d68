#include "passes/overlap/raise_comms.h"

#include <algorithm>
#include <deque>

#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

using namespace analysis;

bool may_be_held(const Problem& p, int node) {
  const std::span<const Step> steps = p.steps_of(node);
  return steps.size() == 1 && steps[0].kind == Step::Kind::start && !steps[0].blocking;
}

}  // namespace

bool RaiseComms::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context, [](Reordering& r) {
    r.freedom.waits = false;
    const Problem& p = r.problem;
    std::vector<int> reversed;
    std::deque<int> held;  // later ones in front
    std::vector<int> needs(static_cast<std::size_t>(p.size()),
                           0);  // how many held starts depend on this node
    const auto let_go = [&] {
      const int start = held.front();
      held.pop_front();
      for (int before : p.predecessors(start)) --needs[static_cast<std::size_t>(before)];
      reversed.push_back(start);
    };
    for (int n = p.size() - 1; n >= 0; --n) {
      // Another start in between stays below this one: what is held goes up together, in its order.
      if (!may_be_held(p, n)) {
        while (needs[static_cast<std::size_t>(n)] > 0) let_go();
        if (r.starts(n)) {
          while (!held.empty()) let_go();
        }
        reversed.push_back(n);
        continue;
      }
      held.push_back(n);
      for (int before : p.predecessors(n)) ++needs[static_cast<std::size_t>(before)];
    }
    while (!held.empty()) let_go();
    std::reverse(reversed.begin(), reversed.end());
    return reversed;
  });
}

}  // namespace braid::passes
