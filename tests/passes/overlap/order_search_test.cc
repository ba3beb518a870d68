#include "passes/overlap/order_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "analysis/simulator.h"
#include "analysis/tails.h"
#include "passes/overlap/list_scheduler.h"
#include "passes/overlap/local_search.h"
#include "tests/support/build_problem.h"
#include "tests/support/random.h"
#include "tests/support/random_problem.h"

namespace braid::test {
namespace {

using namespace passes;
using namespace analysis;

bool keeps_dependencies(const Problem& p, OrderView order) {
  if (order.end_id().index != p.size()) return false;
  const IdVector<NodeId, Position> position = positions_of(order);
  for (NodeId n : p.nodes()) {
    if (!position[n].valid()) return false;
    for (NodeId before : p.predecessors(n)) {
      if (position[before] >= position[n]) return false;
    }
  }
  return true;
}

Problem any_problem(std::uint64_t seed, int nodes) {
  std::mt19937_64 random(seed * 77 + 1);
  RandomProblemOptions o;
  o.nodes = nodes;
  o.channels = 1 + static_cast<int>(random() % 3);
  o.fabrics = 1 + static_cast<int>(random() % 2);
  o.contention = random() % 2 == 0;
  o.groups = random() % 4 == 0;
  o.blocking = random() % 4 == 0;
  o.edges = nodes < 12 ? 0.05 + 0.1 * static_cast<double>(random() % 4) : 2.0 / nodes;
  o.max_time = random() % 2 == 0 ? 20000 : 100;
  return random_problem(seed, o);
}

std::int64_t peak(const LiveBytes& live, OrderView order) {
  return total(LiveOrder(&live, Order(order.begin(), order.end())).peaks());
}

LiveBytes any_memory(std::uint64_t seed, int nodes) {
  std::mt19937_64 random(seed);
  IdVector<TenantId, LiveTenant> tenants(first_ids<TenantId>(nodes));
  for (LiveTenant& t : tenants) {
    t.bytes = static_cast<std::int64_t>(random() % 100);
    t.space = random() % 2;
    t.from_begin = random() % 8 == 0;
    t.to_end = random() % 8 == 0;
    const int first = static_cast<int>(random() % static_cast<std::uint64_t>(nodes));
    for (int n = first; n < std::min(nodes, first + 12); ++n) {
      if (n == first || random() % 3 == 0) t.nodes.push_back(NodeId{n});
    }
  }
  return LiveBytes(nodes, std::move(tenants));
}

// All-gathers of `layers` layers that take a each, computations of c each that need one.
Problem uniform_layers(int layers, std::int64_t gather, std::int64_t compute) {
  ProblemBuilder b;
  NodeId last;
  for (int l = 0; l < layers; ++l) {
    std::vector<NodeId> needs = {b.wait(b.start(gather))};
    if (last.valid()) needs.push_back(last);
    last = b.compute(compute, needs);
  }
  return b.build();
}

TEST(OrderSearch, UniformLayersReachTheClosedForms) {
  for (const int layers : {1, 2, 3, 10, 100}) {
    for (const auto& [gather, compute] :
         {std::pair{400, 1000}, {1000, 1000}, {1700, 1000}, {999, 1000}, {1001, 1000}}) {
      const Problem p = uniform_layers(layers, gather, compute);
      const std::int64_t expected = gather <= compute ? gather + layers * compute : layers * gather + compute;
      EXPECT_EQ(search_order(p, {}, {}).makespan.ps, expected) << layers << ' ' << gather << ' ' << compute;
    }
  }
}

TEST(OrderSearch, ExpensiveOverlapIsLeftAlone) {
  // Beside the collective the computation takes four times as long: 20 of work beside 10 of transfer would
  // take 10 / 4 less off it than it costs to wait.
  ProblemBuilder b;
  const NodeId s = b.start(10, {}, {.slowdown = 2000});
  b.compute(5, {b.wait(s)}, 4000);
  b.compute(20, {}, 4000);
  const Problem p = b.build();
  EXPECT_EQ(search_order(p, {}, {}).makespan, exhaustive_optimum(p).makespan);
}

TEST(OrderSearch, UrgentCollectiveOvertakesInItsChannel) {
  // The second collective is on the long chain, the first one on none.
  ProblemBuilder b;
  const NodeId slow = b.start(100);
  const NodeId urgent = b.start(10);
  const NodeId w = b.wait(urgent);
  b.compute(200, {w});
  b.compute(1, {b.wait(slow)});
  EXPECT_EQ(search_order(b.build(), {}, {}).makespan.ps, 211);
}

// The figure of issue 3: optimal in at least 90 % of those that plain critical-path list scheduling misses,
// and nowhere worse than 1.1 x. The optimum is by branch and bound over all orders.
TEST(OrderSearch, SmallProblemsAreSolvedNearlyAlways) {
  const std::uint64_t first = first_seed();
  const int wanted = random_cases(250);
  int cases = 0, optimal = 0;
  for (std::uint64_t seed = first; cases < wanted; ++seed) {
    const Problem p = any_problem(seed, 5 + static_cast<int>(seed % 5));
    const Time optimum = exhaustive_optimum(p).makespan;
    const NodeTails tails = path_tails(p);
    const Order plain = list_schedule(p, {.priority = tails, .tails = tails, .may_idle = false});
    ASSERT_TRUE(keeps_dependencies(p, plain)) << "seed " << seed;
    if (simulate_makespan(p, plain) == optimum) continue;
    ++cases;
    const FoundOrder found = search_order(p, {}, {});
    ASSERT_TRUE(keeps_dependencies(p, found.order)) << "seed " << seed;
    ASSERT_EQ(simulate_makespan(p, found.order), found.makespan) << "seed " << seed;
    ASSERT_GE(found.makespan, optimum) << "seed " << seed;
    EXPECT_LE(static_cast<double>(found.makespan.ps), 1.1 * static_cast<double>(optimum.ps))
        << "seed " << seed;
    optimal += found.makespan == optimum ? 1 : 0;
  }
  RecordProperty("optimal", optimal);
  EXPECT_GE(optimal, cases * 9 / 10) << "first seed " << first;
}

TEST(OrderSearch, IsLegalAndNeverLongerThanTheInput) {
  for (int i = 0; i < random_cases(40); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    const Problem p = any_problem(seed, 40 + i % 60);
    const FoundOrder found =
        search_order(p, {}, {.appends_per_node = 50, .least_appends = 0, .cap = {}, .bound = {}});
    ASSERT_TRUE(keeps_dependencies(p, found.order)) << "seed " << seed;
    EXPECT_EQ(simulate_makespan(p, found.order), found.makespan) << "seed " << seed;
    EXPECT_LE(found.makespan, simulate_makespan(p, identity_order(p.nodes()))) << "seed " << seed;
  }
}

TEST(OrderSearch, TwoRunsAgree) {
  const Problem p = any_problem(5, 120);
  EXPECT_EQ(search_order(p, {}, {}).order, search_order(p, {}, {}).order);
}

TEST(OrderSearch, KeepsTheCapInPlannedBytes) {
  for (int i = 0; i < random_cases(40); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    const Problem p = any_problem(seed, 20 + i);
    const LiveBytes live = any_memory(seed, p.size());
    // A plan that wastes a little, differently for every order.
    const auto planned = [&](OrderView order) {
      return peak(live, order) + order[Position{order.end_id().index / 2}].index % 7;
    };
    const std::int64_t cap = planned(identity_order(p.nodes())) * (100 + i % 3 * 5) / 100;
    const FoundOrder found = search_order(
        p, {&live, planned}, {.appends_per_node = 50, .least_appends = 0, .cap = cap, .bound = {}});
    ASSERT_TRUE(keeps_dependencies(p, found.order)) << "seed " << seed;
    EXPECT_TRUE(found.keeps_cap) << "seed " << seed;
    EXPECT_LE(planned(found.order), cap) << "seed " << seed;
    EXPECT_EQ(planned(found.order), found.planned_bytes) << "seed " << seed;
    EXPECT_LE(found.makespan, simulate_makespan(p, identity_order(p.nodes()))) << "seed " << seed;
  }
}

TEST(Admission, AnyAdmittedOrderKeepsTheLimit) {
  for (int i = 0; i < random_cases(100); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    const Problem p = any_problem(seed, 12 + i % 40);
    const LiveBytes live = any_memory(seed, p.size());
    const Order reference = random_order(p, seed);
    const std::int64_t limit = peak(live, reference) + i % 4 * 20;
    std::mt19937_64 random(seed);
    Admission admission(live, reference, limit);
    Order order;
    IdVector<NodeId, int> missing;
    for (NodeId n : p.nodes()) missing.push_back(count_of(p.predecessors(n)));
    while (order.size() < p.nodes().size()) {
      // Any ready node that is admitted.
      std::vector<NodeId> ready;
      for (NodeId n : p.nodes()) {
        if (missing[n] == 0 && admission.may_take(n)) ready.push_back(n);
      }
      ASSERT_FALSE(ready.empty()) << "seed " << seed;
      ASSERT_NE(std::find(ready.begin(), ready.end(), admission.next()), ready.end()) << "seed " << seed;
      const NodeId n = ready[random() % ready.size()];
      admission.take(n);
      order.push_back(n);
      missing[n] = -1;
      for (const NodeId s : p.successors(n)) --missing[s];
    }
    ASSERT_LE(peak(live, order), limit) << "seed " << seed;
  }
}

TEST(LocalSearch, KnowsItsMakespanAndItsMemory) {
  for (int i = 0; i < random_cases(60); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    const Problem p = any_problem(seed, 10 + i * 2);
    const LiveBytes live = any_memory(seed, p.size());
    const Order start = random_order(p, seed);
    const std::int64_t limit = peak(live, start) + 30;
    LocalSearch search(p, &live, limit, Time{0});
    search.set(start);
    ASSERT_EQ(search.makespan(), simulate_makespan(p, start)) << "seed " << seed;
    SearchBudget budget{200 * p.size()};
    search.improve(budget);
    ASSERT_TRUE(keeps_dependencies(p, search.order())) << "seed " << seed;
    EXPECT_EQ(search.makespan(), simulate_makespan(p, search.order())) << "seed " << seed;
    search.explore(budget, seed);
    ASSERT_TRUE(keeps_dependencies(p, search.order())) << "seed " << seed;
    EXPECT_EQ(search.makespan(), simulate_makespan(p, search.order())) << "seed " << seed;
    EXPECT_LE(search.makespan(), simulate_makespan(p, start)) << "seed " << seed;
    EXPECT_LE(peak(live, search.order()), limit) << "seed " << seed;
  }
}

TEST(Tails, AreTheRestOfAnOrderWithoutContention) {
  for (int i = 0; i < random_cases(50); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    // One channel: no fabric is shared.
    const Problem p = random_problem(seed, {.nodes = 30, .channels = 1, .contention = false, .edges = 0.1});
    const Order order = random_order(p, seed);
    EXPECT_EQ(order_tails(p, order).stream[Position{0}], simulate_makespan(p, order).ps) << "seed " << seed;
    // The longest chain is one of any order.
    const NodeTails tails = path_tails(p), queued = channel_tails(p, order);
    EXPECT_LE(*std::max_element(tails.begin(), tails.end()), simulate_makespan(p, order).ps)
        << "seed " << seed;
    for (const NodeId n : p.nodes()) EXPECT_LE(tails[n], queued[n]) << "seed " << seed;
  }
}

TEST(Tails, BackwardsInTimeChainsAreAsLong) {
  for (int i = 0; i < random_cases(50); ++i) {
    const std::uint64_t seed = first_seed() + static_cast<std::uint64_t>(i);
    const Problem p = random_problem(seed, {.nodes = 30, .channels = 1, .contention = false, .edges = 0.1});
    const ReversedProblem r = reversed(p);
    const Order backwards = random_order(r.problem, seed);
    ASSERT_TRUE(keeps_dependencies(r.problem, backwards)) << "seed " << seed;
    EXPECT_TRUE(keeps_dependencies(p, r.order(backwards))) << "seed " << seed;
    // The longest chain is the same.
    const NodeTails tails = path_tails(p), heads = path_tails(r.problem);
    EXPECT_EQ(*std::max_element(tails.begin(), tails.end()), *std::max_element(heads.begin(), heads.end()))
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace braid::test
