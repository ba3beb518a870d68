#include "passes/overlap/order_search.h"

#include <algorithm>

#include "passes/overlap/list_scheduler.h"
#include "passes/overlap/local_search.h"
#include "passes/overlap/simulator.h"
#include "passes/overlap/tails.h"

namespace braid::passes {
namespace {

class OrderSearch {
 public:
  OrderSearch(const Problem& problem, const OrderMemory& memory, const OrderSearchOptions& options)
      : p_(problem),
        memory_(memory),
        options_(options),
        tails_(path_tails(problem)),
        backwards_(passes::reversed(problem)),
        heads_(path_tails(backwards_.problem)) {
    if (memory_.live != nullptr) live_backwards_ = memory_.live->reversed(backwards_.virtuals);
  }

  FoundOrder run() {
    std::vector<int> input = identity_order(p_.size());
    const std::int64_t input_bytes = planned(input);
    found_ = {input, simulate_makespan(p_, input), input_bytes, keeps(input_bytes)};
    if (p_.collectives.empty() || p_.size() < 3) return found_;

    std::vector<int> best;
    Time shortest = Time::max();
    for (std::vector<int>& order : free_orders()) {
      const Time t = simulate_makespan(p_, order);
      if (t < shortest) {
        shortest = t;
        best = std::move(order);
      }
    }
    if (!options_.cap || keeps(planned(best))) {
      offer(best);
      local_search(INT64_MAX);
    } else {
      capped(input, input_bytes);
    }
    return std::move(found_);
  }

 private:
  const Problem& p_;
  const OrderMemory& memory_;
  const OrderSearchOptions& options_;
  std::vector<std::int64_t> tails_;
  ReversedProblem backwards_;
  std::vector<std::int64_t> heads_;
  LiveBytes live_backwards_;
  FoundOrder found_;

  std::int64_t planned(std::span<const int> order) const {
    return memory_.planned_bytes ? memory_.planned_bytes(order) : 0;
  }
  bool keeps(std::int64_t bytes) const { return !options_.cap || bytes <= *options_.cap; }

  // Takes it if it keeps the cap and is shorter. True if it keeps the cap.
  bool offer(const std::vector<int>& order) {
    const std::int64_t bytes = planned(order);
    if (!keeps(bytes)) {
      if (!found_.keeps_cap && bytes < found_.planned_bytes)
        found_ = {order, simulate_makespan(p_, order), bytes, false};
      return false;
    }
    const Time t = simulate_makespan(p_, order);
    if (!found_.keeps_cap || t < found_.makespan || (t == found_.makespan && bytes < found_.planned_bytes)) {
      found_ = {order, t, bytes, true};
    }
    return true;
  }

  std::vector<std::vector<int>> free_orders() const {
    std::vector<std::vector<int>> out;
    out.push_back(list_schedule(p_, {.priority = tails_}));
    out.push_back(list_schedule(p_, {.priority = tails_, .may_idle = false}));
    out.push_back(list_schedule(p_, {.priority = tails_, .share_fabric = false}));
    out.push_back(backwards_.order(list_schedule(backwards_.problem, {.priority = heads_})));
    out.push_back(
        backwards_.order(list_schedule(backwards_.problem, {.priority = heads_, .may_idle = false})));
    // Once more, now that it is known how the channels queue.
    const auto shortest = std::min_element(out.begin(), out.end(), [&](const auto& a, const auto& b) {
      return simulate_makespan(p_, a) < simulate_makespan(p_, b);
    });
    const std::vector<std::int64_t> queued = channel_tails(p_, *shortest);
    out.push_back(list_schedule(p_, {.priority = queued}));
    return out;
  }

  // Orders within a limit of live bytes; `reference` keeps it.
  std::vector<std::vector<int>> limited_orders(const std::vector<int>& reference, std::int64_t limit) const {
    std::vector<std::vector<int>> out;
    for (const bool may_idle : {true, false}) {
      Admission admission(*memory_.live, reference, limit);
      out.push_back(list_schedule(p_, {.priority = tails_, .may_idle = may_idle}, &admission));
    }
    std::vector<int> backwards;
    for (int v = 0; v < backwards_.virtuals; ++v) backwards.push_back(v);
    for (std::size_t k = reference.size(); k-- > 0;) {
      backwards.push_back(backwards_.problem.size() - 1 - reference[k]);
    }
    Admission admission(live_backwards_, backwards, limit);
    out.push_back(backwards_.order(list_schedule(backwards_.problem, {.priority = heads_}, &admission)));
    return out;
  }

  void capped(const std::vector<int>& input, std::int64_t input_bytes) {
    std::vector<int> reference = input;
    std::int64_t reference_bytes = input_bytes;
    if (!keeps(input_bytes)) {
      // The input order itself needs too much: the least that list scheduling gets along with.
      const std::int64_t least = total(memory_.live->peaks(input));
      for (std::int64_t limit = least;;) {
        std::vector<int> smaller = shrunk(reference, limit);
        const std::int64_t live = total(memory_.live->peaks(smaller));
        if (live >= limit) break;
        reference = std::move(smaller);
        limit = live;
      }
      reference_bytes = planned(reference);
      offer(reference);
      if (!found_.keeps_cap) return;
    }
    // Live bytes stand for planned bytes; how many of them just fit is found by bisection.
    const std::int64_t live = total(memory_.live->peaks(reference));
    std::int64_t low = live, high = live + 2 * std::max<std::int64_t>(0, *options_.cap - reference_bytes);
    std::int64_t limit = live + (*options_.cap - reference_bytes), held = live;
    for (int round = 0; round < 5 && low <= high; ++round) {
      bool fits = false;
      for (const std::vector<int>& order : limited_orders(reference, limit)) fits |= offer(order);
      if (fits) {
        held = std::max(held, limit);
        low = limit + 1;
      } else {
        high = limit - 1;
      }
      limit = low + (high - low) / 2;
    }
    for (int round = 0; round < 3; ++round) {
      const std::int64_t over = local_search(held);
      if (over <= 0) break;
      held -= over;
    }
  }

  // One step of least live bytes first: of the ready nodes the one that frees most, within ever smaller
  // limits.
  std::vector<int> shrunk(const std::vector<int>& reference, std::int64_t limit) const {
    // Priority: what a node frees less what it takes, if it came in the order of the reference.
    std::vector<std::int64_t> balance(static_cast<std::size_t>(p_.size()), 0);
    std::vector<int> position(static_cast<std::size_t>(p_.size()));
    for (std::size_t k = 0; k < reference.size(); ++k) {
      position[static_cast<std::size_t>(reference[k])] = static_cast<int>(k);
    }
    for (const LiveTenant& t : memory_.live->tenants()) {
      if (t.nodes.empty()) continue;
      const auto by_position = [&](int a, int b) {
        return position[static_cast<std::size_t>(a)] < position[static_cast<std::size_t>(b)];
      };
      const int first = *std::min_element(t.nodes.begin(), t.nodes.end(), by_position);
      const int last = *std::max_element(t.nodes.begin(), t.nodes.end(), by_position);
      if (!t.from_begin) balance[static_cast<std::size_t>(first)] -= t.bytes;
      if (!t.to_end) balance[static_cast<std::size_t>(last)] += t.bytes;
    }
    Admission admission(*memory_.live, reference, limit);
    return list_schedule(p_, {.priority = balance, .may_idle = false}, &admission);
  }

  // From the order found. By how many planned bytes its result was too large; 0: it was kept, or is no
  // shorter.
  std::int64_t local_search(std::int64_t limit) {
    SearchBudget budget{std::max(options_.least_appends, options_.appends_per_node * p_.size())};
    LocalSearch search(p_, options_.cap ? memory_.live : nullptr, limit, options_.bound);
    search.set(found_.order);
    search.improve(budget);
    search.explore(budget, 1);
    if (search.makespan() >= found_.makespan || offer(search.order())) return 0;
    return planned(search.order()) - *options_.cap;
  }
};

}  // namespace

FoundOrder search_order(const Problem& problem, const OrderMemory& memory,
                        const OrderSearchOptions& options) {
  return OrderSearch(problem, memory, options).run();
}

}  // namespace braid::passes
