// The reductions of a problem before it is searched.
#include "solver/network.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/solver/next_choice.h"

namespace braid::solver {
namespace {

constexpr int kChoices = 3;

// From each choice of one variable to one of the other.
CostTable one_to_one(int shift) {
  std::vector<Cost> costs(kChoices * kChoices, kForbidden);
  for (int i = 0; i < kChoices; ++i) costs[i * kChoices + (i + shift) % kChoices] = i;
  return costs;
}

// Returns a chain of variables, each determining the next one and each with a neighbour below that has no
// other; all are under limits:
//
//   0 ─ 1 ─ 2 ─ ...      whose pairs with what is below move along the chain as it is merged
//   │   │   │
//   n  n+1 n+2
Problem chain(int length) {
  Problem problem;
  problem.variables.assign(2 * length, std::vector<Cost>(kChoices, 0));
  problem.limits.assign(length, 4);
  for (int k = 0; k < length; ++k) {
    if (k + 1 < length) problem.edges.push_back({k, k + 1, one_to_one(k % kChoices)});
    std::vector<Cost> costs;
    for (int i = 0; i < kChoices * kChoices; ++i) costs.push_back((7 * i + k) * (3 * i + 1) % 11);
    problem.edges.push_back({k, length + k, std::move(costs)});
    problem.usages.push_back({k, {1, 2, 3}, {{k, k + 1}}});
    problem.usages.push_back({length + k, {1, 2, 3}, {{k, k + 1}}});
  }
  return problem;
}

// A chain of n leaves one variable with n pairs: n * n / 2 have been made.
TEST(ShardingNetwork, PlacesOfRemovedPairsAreUsedAgain) {
  constexpr int kLength = 400;
  const Problem problem = chain(kLength);
  Network network(problem, 1);
  network.reduce(kInside, false);
  EXPECT_FALSE(network.infeasible);
  int chained = 0;
  for (const VariableId v : first_ids<VariableId>(kLength)) chained += network.nodes[v].alive;
  EXPECT_EQ(chained, 1);
  EXPECT_LE(network.pairs.size(), 2 * problem.edges.size());
}

TEST(ShardingNetwork, MergedVariablesHaveOneUseInEqualRows) {
  Problem problem = chain(6);
  for (Usage& usage : problem.usages)
    if (const int v = usage.variable.index; v < 6) usage.rows = {{{v % 2}, {v % 2 + 1}}};
  Network network(problem, 1);
  network.reduce(kInside, false);
  for (const VariableId v : first_ids<VariableId>(6)) EXPECT_LE(network.nodes[v].uses.size(), 2U);
  const Solution solution = solve(problem);
  ASSERT_TRUE(solution.proved());
  Cost best = kForbidden;
  Assignment choice = first_choice(problem);
  do {
    best = std::min(best, price(problem, choice));
  } while (next_choice(problem, choice));
  EXPECT_EQ(solution.cost, best);
}

TEST(ShardingNetwork, CostsOfAPairAreComparedByContent) {
  PairCosts own(std::vector<Cost>{1, 2});
  for (const bool shared : {false, true}) {
    if (shared) own.share();
    EXPECT_TRUE(own == CostTable({1, 2}));
    EXPECT_FALSE(own == CostTable({1, 3}));
    EXPECT_FALSE(own == CostTable());  // which has no owner either
  }
  PairCosts other = own;
  other.edit()[0] = 5;
  EXPECT_TRUE(own == CostTable({1, 2}));
  EXPECT_TRUE(other == CostTable({5, 2}));
}

// Two variables with two neighbours each. The tables have the same content, but one is transposed, so
// eliminating the two variables leaves different tables.
TEST(ShardingNetwork, TurnedTablesAreOthers) {
  constexpr int kMany = 13;  // so that what is left is worth keeping
  std::vector<Cost> first, second;
  for (int i = 0; i < kMany * kMany; ++i) {
    first.push_back((31 * i + 7) % 101);
    second.push_back((17 * i + 3) % 97);
  }
  const CostTable a(first), b(second);
  Problem problem;
  problem.variables.assign(6, std::vector<Cost>(kMany, 0));
  for (int v = 2; v < 6; ++v) {
    for (int c = 0; c < kMany; ++c) problem.variables[{v}].edit()[c] = (c * 11 + v * 5) % 29;
  }
  problem.edges = {{0, 2, a}, {0, 3, b}, {4, 1, a}, {1, 5, b}};
  Cost best = 0;
  for (const bool turned : {false, true}) {
    Cost least = kForbidden;
    const CostTable &of_x = problem.variables[{turned ? 4 : 2}], &of_y = problem.variables[{turned ? 5 : 3}];
    for (std::size_t v = 0; v < kMany; ++v) {
      for (std::size_t x = 0; x < kMany; ++x) {
        for (std::size_t y = 0; y < kMany; ++y) {
          const Cost costs = of_x[x] + of_y[y];
          least = std::min(
              least, costs + (turned ? first[x * kMany + v] : first[v * kMany + x]) + second[v * kMany + y]);
        }
      }
    }
    best += least;
  }
  EXPECT_EQ(solve(problem).cost, best);
}

}  // namespace
}  // namespace braid::solver
