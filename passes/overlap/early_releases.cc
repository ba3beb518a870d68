#include "passes/overlap/early_releases.h"

#include <algorithm>

namespace braid::passes {

using namespace analysis;

bool only_releases(const Problem& problem, int node) {
  const std::span<const Step> steps = problem.steps_of(node);
  return !steps.empty() &&
         std::ranges::all_of(steps, [](const Step& s) { return s.kind == Step::Kind::release; });
}

std::vector<int> with_early_releases(const Problem& problem, std::span<const int> order) {
  std::vector<int> missing(order.size());
  for (int n = 0; n < problem.size(); ++n) {
    missing[static_cast<std::size_t>(n)] = static_cast<int>(problem.predecessors(n).size());
  }
  std::vector<char> done(order.size(), 0);
  std::vector<int> out;
  out.reserve(order.size());
  for (const int next : order) {
    std::size_t first = out.size();
    if (done[static_cast<std::size_t>(next)] == 0) out.push_back(next);
    // What has just come may let releases come, and those others.
    for (; first < out.size(); ++first) {
      done[static_cast<std::size_t>(out[first])] = 1;
      for (const int after : problem.successors(out[first])) {
        if (--missing[static_cast<std::size_t>(after)] == 0 && only_releases(problem, after))
          out.push_back(after);
      }
    }
  }
  return out;
}

}  // namespace braid::passes
