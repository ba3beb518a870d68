#include "passes/overlap/sink_waits.h"

#include <algorithm>

#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

using namespace analysis;

// Emits a held node and the held ones that it needs, which come before it in the input.
void flush(const Problem& p, int node, std::vector<bool>& held, std::vector<int>& order) {
  std::vector<int> due = {node};
  for (std::size_t k = 0; k < due.size(); ++k) {
    for (int before : p.predecessors(due[k])) {
      if (held[static_cast<std::size_t>(before)]) due.push_back(before);
    }
  }
  std::sort(due.begin(), due.end());
  for (int n : due) {
    if (!held[static_cast<std::size_t>(n)]) continue;  // found twice
    held[static_cast<std::size_t>(n)] = false;
    order.push_back(n);
  }
}

// Only a wait or release, not a group with other work in it.
bool may_be_held(const Problem& p, int node) {
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
    std::vector<bool> held(static_cast<std::size_t>(p.size()), false);
    std::vector<int> order;
    for (int n = 0; n < p.size(); ++n) {
      if (may_be_held(p, n)) {
        held[static_cast<std::size_t>(n)] = true;
        continue;
      }
      std::vector<int> due;
      for (int before : p.predecessors(n)) {
        if (held[static_cast<std::size_t>(before)]) due.push_back(before);
      }
      for (int d : due) flush(p, d, held, order);
      order.push_back(n);
    }
    for (int n = 0; n < p.size(); ++n) {
      if (held[static_cast<std::size_t>(n)]) order.push_back(n);
    }
    return order;
  });
}

}  // namespace braid::passes
