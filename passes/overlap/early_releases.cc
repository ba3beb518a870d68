#include "passes/overlap/early_releases.h"

#include <algorithm>

namespace braid::passes {

using namespace analysis;

bool only_releases(const Problem& problem, NodeId node) {
  const std::span<const Step> steps = problem.steps_of(node);
  return !steps.empty() &&
         std::ranges::all_of(steps, [](const Step& s) { return s.kind == Step::Kind::release; });
}

Order with_early_releases(const Problem& problem, OrderView order) {
  IdVector<NodeId, std::size_t> missing(problem.nodes());
  for (const NodeId n : problem.nodes()) missing[n] = problem.predecessors(n).size();
  IdVector<NodeId, char> done(problem.nodes(), 0);
  Order out;
  out.reserve(order.size());
  for (const NodeId next : order) {
    Position first = out.end_id();
    if (done[next] == 0) out.push_back(next);
    // The new nodes may make releases ready, and these others.
    for (; first < out.end_id(); ++first) {
      done[out[first]] = 1;
      for (const NodeId after : problem.successors(out[first])) {
        if (--missing[after] == 0 && only_releases(problem, after)) out.push_back(after);
      }
    }
  }
  return out;
}

}  // namespace braid::passes
