// One plan for several sets of sizes against trying all plans.
#include "split/price_points.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "split/choose_split.h"
#include "split/memory_rows.h"
#include "tests/split/two_products.h"
#include "tests/support/random.h"

namespace braid::frontend::sharding {
namespace {

std::shared_ptr<const analysis::CostModel> costs_at(const char* machine, std::int64_t rows) {
  return std::make_shared<const analysis::CostModel>(analysis::cost_model_for(machine)->machine(),
                                                     analysis::CostOptions{.dims = {{"n", rows}}});
}

struct Best {
  Cost cost = kForbidden;
  Assignment choice;
};

// Over all choices that take at most so many bytes at every point.
Best by_trying_all(const Graph& graph, const SplitSpace& space, const std::vector<PricePoint>& points,
                   std::optional<std::int64_t> memory) {
  std::vector<Problem> problems;
  std::vector<MemoryRows> rows;
  for (const PricePoint& point : points) {
    problems.push_back(space.problem(split_costs(point.costs)));
    rows.emplace_back(graph, space, split_costs(point.costs).size);
  }
  Best best;
  Assignment choice = first_choice(problems[0]);
  do {
    Cost sum = 0;
    for (std::size_t p = 0; p < points.size() && sum != kForbidden; ++p) {
      const Cost own = price(problems[p], choice);
      sum = own == kForbidden || (memory && rows[p].of_plan(choice) > *memory) ? kForbidden
                                                                               : sum + own * points[p].steps;
    }
    if (sum < best.cost) best = {sum, choice};
  } while (next_choice(problems[0], choice));
  return best;
}

TEST(PricePoints, OnePlanIsTheCheapestOfAllForAllStepsTogether) {
  int compared = 0, compromises = 0, limited = 0;
  ImportOptions open;
  open.dims["n"] = {1, 4096};
  std::mt19937_64 random(static_cast<std::uint64_t>(test::first_seed(20261128)));
  for (const char* machine : {"cpu", "h100"}) {
    for (const int hidden : {8, 64}) {
      with_graph(two_products("n", hidden), open, [&](const Graph& graph) {
        for (const int ranks : {2, 4}) {
          for (int k = 0; k < test::random_cases(8); ++k) {
            std::vector<PricePoint> points;
            const int count = 2 + static_cast<int>(random() % 2);
            for (int p = 0; p < count; ++p)
              points.push_back({costs_at(machine, std::int64_t{1} << random() % 13),
                                1 + static_cast<std::int64_t>(random() % 300),
                                {}});
            SearchOptions options;
            options.steps = points[0].steps;
            options.points.assign(points.begin() + 1, points.end());
            const SplitSpace space(graph, ranks);
            const Best free = by_trying_all(graph, space, points, std::nullopt);
            const FoundPlans found = find_plans(graph, {Mesh::line(ranks)}, points[0].costs, options)[0];
            ASSERT_FALSE(found.plans.empty());
            const FoundPlan& plan = found.plans[0];
            EXPECT_EQ(plan.predicted.ps, free.cost);
            EXPECT_TRUE(plan.proved);
            Cost sum = 0, alone = 0;
            ASSERT_EQ(plan.at_points.size(), points.size());
            for (int p = 0; p < count; ++p) {
              const auto own = static_cast<std::size_t>(p);
              sum += plan.at_points[own].ps * points[own].steps;
              // A plan for each set of sizes alone is no slower there.
              const Cost best = solve(space.problem(split_costs(points[own].costs))).cost;
              EXPECT_GE(plan.at_points[own].ps, best);
              alone += best * points[own].steps;
            }
            EXPECT_EQ(sum, plan.predicted.ps);
            EXPECT_GE(sum, alone);
            compromises += sum > alone ? 1 : 0;
            EXPECT_LE(found.order, plan.predicted);
            ++compared;

            // The limit holds at every set of sizes.
            std::int64_t bytes = 0;
            for (const PricePoint& point : points)
              bytes = std::max(bytes,
                               MemoryRows(graph, space, split_costs(point.costs).size).of_plan(free.choice));
            options.memory = bytes - 1;
            const Best within = by_trying_all(graph, space, points, options.memory);
            const FoundPlans less = find_plans(graph, {Mesh::line(ranks)}, points[0].costs, options)[0];
            ASSERT_EQ(less.plans.empty(), within.cost == kForbidden);
            if (within.cost == kForbidden) {
              EXPECT_GT(less.least_bytes, *options.memory);
              continue;
            }
            EXPECT_EQ(less.plans[0].predicted.ps, within.cost);
            ++limited;
          }
        }
      });
    }
  }
  fmt::print("{} searches, {} of them with a compromise, {} under a limit\n", compared, compromises, limited);
  EXPECT_GT(compromises, 0);
  EXPECT_GT(limited, 0);
}

// Some searches are left out because other assumptions about communication lead the same way: they would have
// found no other plan. Others are left out because no plan gains by them: they would have found none that
// takes a thousandth less.
TEST(Candidates, HaveThePlanOfEveryAssumption) {
  ImportOptions open;
  open.dims["n"] = {1, 4096};
  int compared = 0, fewer = 0, left_out = 0;
  for (const char* machine : {"cpu", "h100", "a100"}) {
    for (const int hidden : {8, 64, 256}) {
      with_graph(two_products("n", hidden), open, [&](const Graph& graph) {
        for (const Mesh& mesh : {Mesh::line(2), Mesh::line(4), parse_mesh("a=2,b=2", "mesh")}) {
          for (int rows = 1; rows <= 4096; rows *= 4) {
            SCOPED_TRACE(fmt::format("{} hidden {} rows {} on {}", machine, hidden, rows, to_string(mesh)));
            const auto costs = costs_at(machine, rows);
            const FoundPlans found = find_plans(graph, {mesh}, costs, {})[0];
            const SplitSpace space(graph, mesh);
            std::vector<std::string> texts;
            const SplitChoice cheapest = choose_split(space, split_costs(costs));
            for (const int communication : {1000, 2000, 500, 100}) {
              const SplitCosts weighted = split_costs(costs, {communication, 0});
              const SplitChoice choice = choose_split(space, weighted);
              texts.push_back(to_string(choice.plan));
              const bool known = std::ranges::any_of(
                  found.plans, [&](const FoundPlan& plan) { return plan.text == texts.back(); });
              // Or it takes hardly less than the cheapest one.
              const Cost gain = cheapest.price(graph, weighted) - choice.price(graph, weighted);
              EXPECT_TRUE(known ||
                          (communication < 1000 && gain <= cheapest.price(graph, split_costs(costs)) / 1000))
                  << communication << "\n"
                  << texts.back();
              ++compared;
              left_out += !known;
            }
            fewer += texts[0] == texts[3] && texts[1] != texts[0];
          }
        }
      });
    }
  }
  EXPECT_GT(compared, 500);
  EXPECT_LT(left_out, compared / 20);
  EXPECT_GT(fewer, 0);
}

}  // namespace
}  // namespace braid::frontend::sharding
