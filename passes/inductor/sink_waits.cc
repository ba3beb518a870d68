#include "passes/inductor/sink_waits.h"

#include <algorithm>

#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

using namespace analysis;

// Emits a held node and the held ones that it needs, which come before it in the input.
void flush(const Problem& p, NodeId node, IdVector<NodeId, char>& held, Order& order) {
  std::vector<NodeId> due = {node};
  for (std::size_t k = 0; k < due.size(); ++k) {
    for (NodeId before : p.predecessors(due[k])) {
      if (held[before] != 0) due.push_back(before);
    }
  }
  std::sort(due.begin(), due.end());
  for (NodeId n : due) {
    if (held[n] == 0) continue;  // found twice
    held[n] = 0;
    order.push_back(n);
  }
}

// Only a wait or release, not a group with other work in it.
bool only_waits_or_releases(const Problem& p, NodeId node) {
  const auto passive = [](const Step& s) {
    return s.kind == Step::Kind::wait || s.kind == Step::Kind::release;
  };
  return !p.steps_of(node).empty() && std::ranges::all_of(p.steps_of(node), passive);
}

}  // namespace

bool SinkWaits::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context, [](Reordering& r) {
    r.freedom.starts = false;
    const Problem& p = r.problem;
    IdVector<NodeId, char> held(p.nodes(), 0);
    Order order;
    for (NodeId n : p.nodes()) {
      if (only_waits_or_releases(p, n)) {
        held[n] = 1;
        continue;
      }
      std::vector<NodeId> due;
      for (NodeId before : p.predecessors(n)) {
        if (held[before] != 0) due.push_back(before);
      }
      for (const NodeId d : due) flush(p, d, held, order);
      order.push_back(n);
    }
    for (NodeId n : p.nodes()) {
      if (held[n] != 0) order.push_back(n);
    }
    return order;
  });
}

}  // namespace braid::passes
