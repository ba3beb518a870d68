#include "passes/rivals/earliest_start_latest_wait.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "analysis/topological.h"
#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

using namespace analysis;

Order earliest_starts(const Reordering& r) {
  const IdVector<NodeId, int> blocks = r.first_start_of();
  return topological_order(r.problem, [&](NodeId n) { return std::pair(blocks[n], r.waits(n)); });
}

// Moves waits and releases down to the nodes that need them; everything else stays.
Order latest_waits(const Reordering& r, const Order& order) {
  const Problem& p = r.problem;
  const auto passive = [&](NodeId n) {
    const std::span<const Step> steps = p.steps_of(n);
    return !steps.empty() && std::ranges::all_of(steps, [](const Step& s) {
      return s.kind == Step::Kind::wait || s.kind == Step::Kind::release;
    });
  };
  IdVector<NodeId, char> held(p.nodes(), 0);
  Order out;
  const std::function<void(NodeId)> emit = [&](NodeId n) {
    for (NodeId before : p.predecessors(n)) {
      if (held[before] != 0) emit(before);
    }
    held[n] = 0;
    out.push_back(n);
  };
  for (NodeId n : order) {
    if (passive(n)) {
      held[n] = 1;
    } else {
      emit(n);
    }
  }
  for (NodeId n : order) {
    if (held[n] != 0) emit(n);
  }
  return out;
}

}  // namespace

bool EarliestStartLatestWait::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context, [](Reordering& r) { return latest_waits(r, earliest_starts(r)); });
}

static const RegisterPass<EarliestStartLatestWait> registered;

}  // namespace braid::passes
