// Sums of tables minimised over a variable against one combination after another.
#include "solver/minimise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace braid::solver {
namespace {

// Over variables of which one, in any place, is minimised over; tables are of some of them, in their order.
struct Case {
  std::vector<std::size_t> sizes;
  std::size_t own = 0;
  std::vector<std::vector<char>> has;  // per table and variable
  TableSum sum;
};

Case random_case(std::mt19937_64& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  Case c;
  const int count = 1 + below(4), largest = count < 3 ? 40 : 11;
  for (int v = 0; v < count; ++v) c.sizes.push_back(1 + below(largest));
  c.own = below(count);
  c.sum.own_last = c.own + 1 == c.sizes.size();
  std::vector<std::size_t> scope;
  for (std::size_t v = 0; v < c.sizes.size(); ++v)
    if (v != c.own) scope.push_back(v);
  scope.push_back(c.own);
  for (const std::size_t v : scope) c.sum.sizes.push_back(c.sizes[v]);
  const int forbidden_one_in = 2 + below(20), most = below(2) == 0 ? 4 : 1 << 30;
  for (int tables = 1 + below(12); tables > 0; --tables) {
    std::vector<char>& has = c.has.emplace_back();
    for (int v = 0; v < count; ++v) has.push_back(below(2) == 0 ? 1 : 0);
    std::vector<std::size_t> strides(c.sizes.size(), 0);
    std::size_t cells = 1;
    for (std::size_t v = c.sizes.size(); v-- > 0;) {
      if (has[v] == 0) continue;
      strides[v] = cells;
      cells *= c.sizes[v];
    }
    std::vector<Cost> costs;
    while (costs.size() < cells) costs.push_back(below(forbidden_one_in) == 0 ? kOut : below(most));
    Term& term = c.sum.terms.emplace_back();
    term.costs = std::make_shared<const std::vector<Cost>>(std::move(costs));
    for (const std::size_t v : scope) term.strides.push_back(strides[v]);
  }
  return c;
}

TEST(Minimise, EqualsOneCombinationAfterAnother) {
  int forbidden = 0, allowed = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const Case c = random_case(random);
    const std::vector<Cost> least = minimise(c.sum);
    std::size_t cells = 1;
    for (std::size_t i = 0; i + 1 < c.sum.sizes.size(); ++i) cells *= c.sum.sizes[i];
    ASSERT_EQ(least.size(), cells) << "seed " << seed;
    for (std::size_t cell = 0; cell < cells; ++cell) {
      std::vector<std::size_t> others(c.sum.sizes.size() - 1);
      std::size_t rest = cell;
      for (std::size_t i = others.size(); i-- > 0;) {
        others[i] = rest % c.sum.sizes[i];
        rest /= c.sum.sizes[i];
      }
      Cost expected = kOut;
      int best = -1;
      for (std::size_t choice = 0; choice < c.sum.sizes.back(); ++choice) {
        Cost cost = 0;
        for (const Term& term : c.sum.terms) {
          std::size_t at = choice * term.strides.back();
          for (std::size_t i = 0; i < others.size(); ++i) at += others[i] * term.strides[i];
          cost = (*term.costs)[at] == kOut ? kOut : std::min(kOut, cost + (*term.costs)[at]);
        }
        if (cost < expected) expected = cost, best = choice;
      }
      ASSERT_EQ(least[cell], expected) << "seed " << seed << " cell " << cell;
      ASSERT_EQ(best_choice(c.sum, others), best) << "seed " << seed << " cell " << cell;
      (best < 0 ? forbidden : allowed) += 1;
    }
  }
  EXPECT_GT(forbidden, 1000);
  EXPECT_GT(allowed, 1000);
}

}  // namespace
}  // namespace braid::solver
