#include "passes/rivals/earliest_start_latest_wait.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>

#include "passes/overlap/reorder.h"

namespace braid::passes {
namespace {

using namespace analysis;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

std::vector<int> earliest_starts(const Reordering& r) {
  const Problem& p = r.problem;
  std::vector<int> blocks(at(p.size()), std::numeric_limits<int>::max()), missing;
  int index = 0;
  for (int n = 0; n < p.size(); ++n) {
    if (r.starts(n)) blocks[at(n)] = index++;
    missing.push_back(static_cast<int>(p.predecessors(n).size()));
  }
  for (int n = p.size(); n-- > 0;) {
    for (int after : p.successors(n)) blocks[at(n)] = std::min(blocks[at(n)], blocks[at(after)]);
  }
  using Key = std::tuple<int, int, int>;
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  const auto push = [&](int n) { ready.emplace(blocks[at(n)], r.waits(n) ? 1 : 0, n); };
  for (int n = 0; n < p.size(); ++n) {
    if (missing[at(n)] == 0) push(n);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int n = std::get<2>(ready.top());
    ready.pop();
    order.push_back(n);
    for (int after : p.successors(n)) {
      if (--missing[at(after)] == 0) push(after);
    }
  }
  return order;
}

// Waits and releases down to what needs them, everything else stays.
std::vector<int> latest_waits(const Reordering& r, const std::vector<int>& order) {
  const Problem& p = r.problem;
  const auto passive = [&](int n) {
    const std::span<const Step> steps = p.steps_of(n);
    return !steps.empty() && std::ranges::all_of(steps, [](const Step& s) {
      return s.kind == Step::Kind::wait || s.kind == Step::Kind::release;
    });
  };
  std::vector<bool> held(at(p.size()), false);
  std::vector<int> out;
  const std::function<void(int)> emit = [&](int n) {
    for (int before : p.predecessors(n)) {
      if (held[at(before)]) emit(before);
    }
    held[at(n)] = false;
    out.push_back(n);
  };
  for (int n : order) {
    if (passive(n)) {
      held[at(n)] = true;
    } else {
      emit(n);
    }
  }
  for (int n : order) {
    if (held[at(n)]) emit(n);
  }
  return out;
}

}  // namespace

bool EarliestStartLatestWait::run(ir::Schedule& schedule, PassContext& context) {
  return reorder(kName, schedule, context, [](Reordering& r) { return latest_waits(r, earliest_starts(r)); });
}

}  // namespace braid::passes
