#include "passes/overlap/order_search.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "analysis/live_order.h"
#include "analysis/simulator.h"
#include "analysis/tails.h"
#include "passes/overlap/early_releases.h"
#include "passes/overlap/list_scheduler.h"
#include "passes/overlap/local_search.h"

namespace braid::passes {
namespace {

using namespace analysis;

class OrderSearch {
 public:
  OrderSearch(const Problem& problem, const OrderMemory& memory, const OrderSearchOptions& options)
      : p_(problem),
        memory_(memory),
        options_(options),
        tails_(path_tails(problem)),
        backwards_(analysis::reversed(problem)),
        heads_(path_tails(backwards_.problem)) {
    if (memory_.live != nullptr) live_backwards_ = memory_.live->reversed(backwards_.virtuals);
  }

  FoundOrder run() {
    Order input = identity_order(p_.nodes());
    std::int64_t input_bytes = planned(input);
    // A placement may be unlucky.
    Order early = with_early_releases(p_, input);
    if (const std::int64_t bytes = planned(early); bytes <= input_bytes) {
      input = std::move(early);
      input_bytes = bytes;
    }
    found_ = {input, simulate_makespan(p_, input), input_bytes, keeps(input_bytes)};
    if (p_.collectives.empty() || p_.size() < 3) return found_;

    FoundOrder free = shortest_free(input);
    free.planned_bytes = planned(free.order);
    if (options_.cap) {
      if (!keeps(free.planned_bytes)) capped(input, free.order);
      take(free);
      if (!options_.quick) local_search_within_cap();
      return std::move(found_);
    }
    // Memory that gains nothing is not spent: of equally short orders, one with a twentieth more than the
    // input.
    const std::int64_t little = input_bytes + input_bytes / 20;
    if (memory_.live != nullptr && !options_.quick && free.planned_bytes > little) {
      options_.cap = little;
      capped(input, free.order);
      local_search_within_cap();
      options_.cap.reset();
      if (found_.makespan <= options_.bound) return std::move(found_);
      // Searches without the limit from the thrifty order and from the shortest of all, and keeps the best.
      const FoundOrder thrifty = found_;
      local_search(INT64_MAX);
      const FoundOrder from_thrifty = std::exchange(found_, std::move(free));
      local_search(INT64_MAX);
      for (const FoundOrder& other : {from_thrifty, thrifty}) {
        if (is_better(other, found_)) found_ = other;
      }
    } else {
      take(free);
      if (!options_.quick) local_search(INT64_MAX);
    }
    return std::move(found_);
  }

 private:
  const Problem& p_;
  const OrderMemory& memory_;
  OrderSearchOptions options_;
  NodeTails tails_;
  ReversedProblem backwards_;
  NodeTails heads_;
  LiveBytes live_backwards_;
  FoundOrder found_;
  // The last orders whose planned bytes were asked for, in turn: rules often find the same one.
  struct Planned {
    Order order;
    std::int64_t bytes;
  };
  std::vector<Planned> planned_;
  std::size_t next_planned_ = 0;

  std::int64_t planned(const Order& order) {
    if (!memory_.planned_bytes) return 0;
    constexpr std::size_t kKept = 8;
    const auto known = std::ranges::find(planned_, order, &Planned::order);
    if (known != planned_.end()) return known->bytes;
    if (planned_.size() < kKept) planned_.emplace_back();
    Planned& slot = planned_[next_planned_++ % kKept];
    slot = {order, memory_.planned_bytes(order)};
    return slot.bytes;
  }
  // Whether more rules are not worthwhile: the order reaches the lower bound or, in large graphs, exceeds it
  // by at most 0.02 %.
  bool enough(Time makespan) const {
    return makespan.ps - options_.bound.ps <= (p_.size() > kLarge ? makespan.ps / 5000 : 0);
  }
  static constexpr int kLarge = 20'000;  // nodes
  bool keeps(std::int64_t bytes) const { return !options_.cap || bytes <= *options_.cap; }

  // Takes it if it keeps the cap and is shorter. True if it keeps the cap.
  bool offer(const Order& decided) {
    const Order order = with_early_releases(p_, decided);
    const std::int64_t bytes = planned(order);
    if (!keeps(bytes)) {
      if (!found_.keeps_cap && bytes < found_.planned_bytes)
        found_ = {order, simulate_makespan(p_, order), bytes, false};
      return false;
    }
    take({order, simulate_makespan(p_, order), bytes});
    return true;
  }

  // Offers an order whose result the caller does not need. A longer order is dropped before its planned bytes
  // are computed.
  void offer_if_shorter(const Order& decided) {
    if (!found_.keeps_cap || simulate_makespan(p_, with_early_releases(p_, decided)) <= found_.makespan)
      offer(decided);
  }

  // Keeps `other`, whose makespan and planned bytes are known, if it is better.
  void take(const FoundOrder& other) {
    if (keeps(other.planned_bytes) && (!found_.keeps_cap || is_better(other, found_))) found_ = other;
  }
  static bool is_better(const FoundOrder& a, const FoundOrder& b) {
    return std::pair(a.makespan, a.planned_bytes) < std::pair(b.makespan, b.planned_bytes);
  }

  // Returns the shortest order that list scheduling finds without a limit; of equally short ones, that with
  // the fewest live bytes.
  FoundOrder shortest_free(const Order& input) const {
    FoundOrder best;
    std::int64_t best_live = 0;
    const auto consider = [&](const Order& decided) {
      Order order = with_early_releases(p_, decided);
      const Time t = simulate_makespan(p_, order);
      const std::int64_t bytes = memory_.live != nullptr ? live(order) : 0;
      if (best.order.empty() || t < best.makespan || (t == best.makespan && bytes < best_live)) {
        best = {std::move(order), t, 0, true};
        best_live = bytes;
      }
    };
    consider(list_schedule(p_, {.priority = tails_, .tails = tails_}));
    // Priorities with age bound how long a node that is not urgent is put off.
    for (const int window : {32, 0, 256}) {
      if (window >= p_.size() || enough(best.makespan)) continue;
      consider(list_schedule(p_, {.priority = aged_tails(tails_, input, window), .tails = tails_}));
    }
    if (options_.quick || enough(best.makespan)) return best;
    consider(list_schedule(p_, {.priority = tails_, .tails = tails_, .may_idle = false}));
    if (p_.fabrics < p_.channels) {
      consider(list_schedule(p_, {.priority = tails_, .tails = tails_, .share_fabric = false}));
    }
    for (const bool may_idle : {true, false}) {
      const ListRule rule{.priority = heads_, .tails = heads_, .may_idle = may_idle};
      consider(backwards_.order(list_schedule(backwards_.problem, rule)));
    }
    // Once more, now that it is known how the channels queue.
    consider(list_schedule(p_, {.priority = channel_tails(p_, best.order), .tails = tails_}));
    return best;
  }

  struct Variant {
    IdSpan<NodeId, const std::int64_t> priority;
    bool may_idle = true;
    int patience = 16;
    bool backwards = false;
  };
  // Within a limit of live bytes that `reference` keeps.
  Order limited(const Variant& v, const Order& reference, std::int64_t limit) const {
    const ListRule rule{.priority = v.backwards ? heads_ : v.priority,
                        .tails = v.backwards ? heads_ : tails_,
                        .may_idle = v.may_idle,
                        .patience = v.patience};
    if (!v.backwards) {
      Admission admission(*memory_.live, reference, limit);
      return list_schedule(p_, rule, &admission);
    }
    Order order;
    for (const NodeId n : first_ids<NodeId>(backwards_.virtuals)) order.push_back(n);
    for (const NodeId n : std::views::reverse(reference)) order.push_back(backwards_.mirror(n));
    Admission admission(live_backwards_, order, limit);
    return backwards_.order(list_schedule(backwards_.problem, rule, &admission));
  }
  std::int64_t live(const Order& order) const { return total(LiveOrder(memory_.live, order).peaks()); }

  // `free`: the shortest order without a cap.
  void capped(const Order& input, const Order& free) {
    Order reference = input;
    if (!found_.keeps_cap) {
      // The input order itself needs too much: the least that list scheduling gets along with.
      std::int64_t limit = live(input);
      while (true) {
        Order smaller = shrunk(reference, limit);
        const std::int64_t needs = live(smaller);
        if (needs >= limit) break;
        reference = std::move(smaller);
        limit = needs;
      }
      offer(reference);
      if (!found_.keeps_cap) return;
    }
    // Priorities that reproduce the shortest order, as far as memory allows.
    NodeTails as_free(p_.nodes());
    for (const Position k : free.ids()) as_free[free[k]] = free.end_id() - k;
    // Live bytes stand for planned bytes; how many of them just fit is found by bisection, for the rules that
    // differ in how long they put off what is not urgent: that holds memory.
    const int n = p_.size();
    int runs = options_.quick ? 3 : std::clamp(400'000 / n, 8, 40);
    const int kept = options_.quick ? 0 : 4;  // for the second part
    std::int64_t limit = live(reference) + *options_.cap - planned(reference);
    for (const int window : {0, 32, 256, n, 8, 128, 1024}) {
      if (window > n || runs <= kept || (found_.keeps_cap && enough(found_.makespan))) continue;
      const NodeTails priority = aged_tails(tails_, reference, window);
      for (int round = 0; round < 2 && runs > kept; ++round, --runs) {
        const Order order = limited({.priority = priority}, reference, limit);
        const std::int64_t over = planned(order) - *options_.cap;
        offer_if_shorter(order);
        if (over <= 0 || limit <= live(reference)) break;
        limit = std::max(live(reference), limit - over);
      }
    }
    // Then the best order so far is the reference: what is left to do then stands in a better order than in
    // the input.
    const Variant variants[] = {{.priority = as_free},
                                {.backwards = true},
                                {.priority = tails_, .patience = 4},
                                {.priority = as_free, .may_idle = false, .patience = 4},
                                {.priority = tails_, .may_idle = false, .patience = 32}};
    for (std::size_t next = 0, idle = 0; runs > 0 && idle < std::size(variants) && !enough(found_.makespan);
         ++next, --runs) {
      const Time before = found_.makespan;
      reference = found_.order;
      limit = live(reference) + *options_.cap - found_.planned_bytes;
      offer_if_shorter(limited(variants[next % std::size(variants)], reference, limit));
      idle = found_.makespan < before ? 0 : idle + 1;
    }
  }

  // One step of least live bytes first: of the ready nodes the one that frees most, within ever smaller
  // limits.
  Order shrunk(const Order& reference, std::int64_t limit) const {
    // Priority: what a node frees less what it takes, if it came in the order of the reference.
    NodeTails balance(p_.nodes(), 0);
    const LiveOrder live(memory_.live, reference);
    for (const Position k : reference.ids()) {
      if (!live.empty()) balance[reference[k]] = total(live.before(k)) - total(live.before(k + 1));
    }
    Admission admission(*memory_.live, reference, limit);
    return list_schedule(p_, {.priority = balance, .tails = tails_, .may_idle = false}, &admission);
  }

  void local_search_within_cap() {
    if (!found_.keeps_cap) return;
    std::int64_t limit = INT64_MAX;
    if (memory_.live != nullptr) limit = live(found_.order) + *options_.cap - found_.planned_bytes;
    for (int round = 0; round < 3; ++round) {
      const std::int64_t over = local_search(limit);
      if (over <= 0) break;
      limit -= over;
    }
  }

  // Searches from the order found. Returns by how many planned bytes its result exceeds the cap; 0 if the
  // result was kept or is no shorter.
  // shorter.
  std::int64_t local_search(std::int64_t limit) {
    if (enough(found_.makespan)) return 0;
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
