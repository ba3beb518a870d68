// Folded problems against all choices of the whole problem.
#include "solver/folded_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "solver/equal_layers.h"
#include "tests/solver/next_choice.h"

namespace braid::solver {
namespace {

// A variable outside, the border before the first layer, and layers of two variables:
//
//   border ─ inside ─ border ─ inside ─ border ...     the last variable of a layer is the border behind it;
//               └──── outside ────┘                    each inside depends on the variable outside
Problem layers(std::mt19937_64& random, int count) {
  const auto below = [&](std::uint64_t n) { return static_cast<int>(random() % n); };
  const int outside = 2 + below(2), border = 2, inside = 1 + below(3);
  const auto table = [&](int cells) {
    std::vector<Cost> costs;
    for (int c = 0; c < cells; ++c) costs.push_back(below(12) == 0 ? kForbidden : below(9));
    return CostTable(costs);
  };
  const CostTable to_inside = table(border * inside), from_inside = table(inside * border),
                  from_outside = table(outside * inside), of_inside = table(inside),
                  of_border = table(border);
  Problem problem;
  problem.variables = {table(outside), table(border)};
  for (int layer = 0; layer < count; ++layer) {
    const VariableId before = problem.variables.end_id() - 1, own = before + 1;
    problem.variables.push_back(of_inside);
    problem.variables.push_back(of_border);
    problem.edges.push_back({before, own, to_inside});
    problem.edges.push_back({own, own + 1, from_inside});
    problem.edges.push_back({VariableId{0}, own, from_outside});
  }
  return problem;
}

Cost sum(Cost a, Cost b) { return a == kForbidden || b == kForbidden ? kForbidden : a + b; }

// The cost of a choice of the folded problem, with its factors and constant.
Cost folded_cost(const FoldedProblem& folded, const Assignment& choice) {
  Cost cost = sum(price(folded.problem(), choice), folded.constant());
  for (const Factor& factor : folded.factors()) {
    std::size_t cell = 0;
    for (const VariableId v : factor.variables)
      cell = cell * folded.problem().variables[v].size() + ir::offset_of(choice[v]);
    const Cost own = (*factor.costs)[cell];
    cost = sum(cost, own >= kForbiddenFrom ? kForbidden : own);
  }
  return cost;
}

TEST(FoldedProblem, CostsAreTheLeastOverTheInsideOfLayers) {
  int folded_problems = 0, choices = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Problem problem = layers(random, 5);
    const std::optional<FoldedProblem> folded = FoldedProblem::of(problem, 1 << 20);
    if (!folded) continue;
    ++folded_problems;
    // By the choices that the whole problem has outside of layers and at borders.
    std::map<std::vector<ChoiceId>, Cost> least;
    const EqualLayers equal = equal_layers(Places(problem));
    const auto outside_of_layers = [&](const Assignment& choice) {
      std::vector<ChoiceId> key;
      for (const VariableId v : choice.ids()) {
        const bool inside = std::ranges::any_of(equal.layers, [&](const EqualLayers::Layer& layer) {
          return std::ranges::find(layer.inside, Place{v.index}) != layer.inside.end();
        });
        if (!inside) key.push_back(choice[v]);
      }
      return key;
    };
    Assignment choice = first_choice(problem);
    do {
      Cost& known = least.try_emplace(outside_of_layers(choice), kForbidden).first->second;
      known = std::min(known, price(problem, choice));
    } while (next_choice(problem, choice));
    std::map<std::vector<ChoiceId>, Cost> found;
    Assignment of_folded = first_choice(folded->problem());
    do {
      const Cost cost = folded_cost(*folded, of_folded);
      if (cost == kForbidden) continue;
      const Assignment whole = folded->restore(of_folded);
      EXPECT_EQ(price(problem, whole), cost);
      Cost& known = found.try_emplace(outside_of_layers(whole), kForbidden).first->second;
      known = std::min(known, cost);
      ++choices;
    } while (next_choice(folded->problem(), of_folded));
    std::erase_if(least, [](const auto& entry) { return entry.second == kForbidden; });
    EXPECT_EQ(found, least);
  }
  EXPECT_GT(folded_problems, 150);
  EXPECT_GT(choices, 1000);
}

}  // namespace
}  // namespace braid::solver
