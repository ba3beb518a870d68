// The solver against exhaustive search on random problems, and what must be recognised or refused.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "ir/error.h"
#include "solver/folded_problem.h"
#include "solver/problem.h"
#include "solver/unlimited.h"
#include "tests/solver/next_choice.h"

namespace braid::solver {
namespace {

// splitmix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

// Calls `visit` with every combination of choices.
template <class Visit>
void for_all(const Problem& problem, const Visit& visit) {
  Assignment choice = first_choice(problem);
  do {
    visit(choice);
  } while (next_choice(problem, choice));
}

// Returns the cost of a choice, written without the solver's `price`.
Cost plain_cost(const Problem& problem, const Assignment& choice, bool with_limits) {
  Cost sum = 0;
  for (const VariableId v : choice.ids()) {
    const Cost cost = problem.variables[v][choice[v]];
    if (cost == kForbidden) return kForbidden;
    sum += cost;
  }
  for (const Edge& edge : problem.edges) {
    const Cost cost =
        edge.costs[choice[edge.from].index * problem.variables[edge.to].size() + choice[edge.to].index];
    if (cost == kForbidden) return kForbidden;
    sum += cost;
  }
  for (const RowId row : problem.limits.ids()) {
    if (!with_limits) break;
    std::int64_t bytes = 0;
    for (const Usage& usage : problem.usages) {
      for (const RowRange& range : usage.rows) {
        if (range.begin <= row && row < range.end) bytes += usage.bytes[choice[usage.variable]];
      }
    }
    if (bytes > problem.limits[row]) return kForbidden;
  }
  return sum;
}

Cost exhaustive(const Problem& problem, bool with_limits = true) {
  Cost best = kForbidden;
  for_all(problem,
          [&](const Assignment& choice) { best = std::min(best, plain_cost(problem, choice, with_limits)); });
  return best;
}

Cost random_cost(Random& random, int most, int forbidden_one_in) {
  if (forbidden_one_in > 0 && random.one_in(forbidden_one_in)) return kForbidden;
  return random.below(most);
}

// Up to 8 variables with up to 6 choices and at most 20,000 combinations; chains, trees, loops, parallel
// edges, equal costs.
Problem random_problem(Random& random) {
  Problem problem;
  const int count = 1 + random.below(8);
  const int most = random.one_in(3) ? 4 : random.one_in(2) ? 100 : 1'000'000'000;
  const int forbidden_one_in = random.one_in(2) ? 0 : 2 + random.below(12);
  std::int64_t combinations = 1;
  for (int v = 0; v < count; ++v) {
    int choices = 1 + random.below(6);
    while (combinations * choices > 20'000) --choices;
    combinations *= choices;
    std::vector<Cost> costs;
    for (int c = 0; c < choices; ++c) costs.push_back(random_cost(random, most, forbidden_one_in));
    problem.variables.push_back(std::move(costs));
  }
  const int edges = random.below(count * (random.one_in(2) ? 3 : 1) + 1);
  for (int e = 0; e < edges; ++e) {
    Edge edge;
    edge.from = {random.below(count)};
    edge.to = random.one_in(12) ? edge.from : VariableId{random.below(count)};
    const int rows = count_of(problem.variables[edge.from]), columns = count_of(problem.variables[edge.to]);
    const int kind = random.below(4);
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) {
        // Some edges make one end a function of the other, some are sums, as conversions often are.
        if (kind == 0) {
          edge.costs.edit().push_back(i % columns == j ? random_cost(random, most, 0) : kForbidden);
        } else if (kind == 1) {
          edge.costs.edit().push_back(i * 3 + j * 5);
        } else {
          edge.costs.edit().push_back(random_cost(random, most, forbidden_one_in));
        }
      }
    }
    problem.edges.push_back(std::move(edge));
  }
  return problem;
}

void add_usages(Random& random, Problem& problem) {
  const int rows = 1 + random.below(5);
  const int most = random.one_in(3) ? 3 : 1'000'000;
  for (const VariableId v : problem.variables.ids()) {
    for (int u = random.below(3); u > 0; --u) {
      Usage usage;
      usage.variable = v;
      for (std::size_t c = 0; c < problem.variables[v].size(); ++c) usage.bytes.push_back(random.below(most));
      const int begin = random.below(rows), end = begin + 1 + random.below(rows - begin);
      usage.rows.push_back({{begin}, {end}});
      if (end + 1 < rows && random.one_in(2)) usage.rows.push_back({{end + 1}, {rows}});
      problem.usages.push_back(std::move(usage));
    }
  }
  problem.limits.assign(rows, 0);
}

// Limits between what the cheapest choice occupies and what the smallest one does, so that some bind.
bool bind_limits(Random& random, Problem& problem) {
  const Cost free = exhaustive(problem, false);
  if (free == kForbidden) return false;
  const IdRange<RowId> rows = problem.limits.ids();
  IdVector<RowId, std::int64_t> cheapest(rows, 0), smallest(rows, std::numeric_limits<std::int64_t>::max());
  const auto occupied = [&](const Assignment& choice, RowId row) {
    std::int64_t bytes = 0;
    for (const Usage& usage : problem.usages) {
      for (const RowRange& range : usage.rows) {
        if (range.begin <= row && row < range.end) bytes += usage.bytes[choice[usage.variable]];
      }
    }
    return bytes;
  };
  bool seen = false;
  for_all(problem, [&](const Assignment& choice) {
    const Cost cost = plain_cost(problem, choice, false);
    if (cost == kForbidden) return;
    for (const RowId row : rows) {
      const std::int64_t bytes = occupied(choice, row);
      smallest[row] = std::min(smallest[row], bytes);
      if (cost == free && !seen) cheapest[row] = bytes;
    }
    if (cost == free) seen = true;
  });
  for (const RowId row : rows) {
    const std::int64_t room = cheapest[row] - smallest[row];
    problem.limits[row] =
        smallest[row] +
        (room > 0 ? static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(room)) : 0);
  }
  return exhaustive(problem) != free;
}

void expect_optimal(const Problem& problem, const Solution& solution, std::uint64_t seed) {
  const Cost best = exhaustive(problem);
  ASSERT_TRUE(solution.proved()) << "seed " << seed;
  ASSERT_EQ(solution.status, best == kForbidden ? Status::kInfeasible : Status::kOptimal) << "seed " << seed;
  EXPECT_EQ(solution.cost, best) << "seed " << seed;
  EXPECT_EQ(solution.bound, best) << "seed " << seed;
  if (best != kForbidden) {
    EXPECT_EQ(plain_cost(problem, solution.choice, true), best) << "seed " << seed;
    EXPECT_EQ(price(problem, solution.choice), best) << "seed " << seed;
  }
}

TEST(ShardingSolve, RandomProblemsWithoutLimits) {
  int infeasible = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Random random(seed);
    const Problem problem = random_problem(random);
    const Solution solution = solve(problem);
    expect_optimal(problem, solution, seed);
    infeasible += solution.status == Status::kInfeasible;
  }
  EXPECT_GT(infeasible, 20);
  EXPECT_LT(infeasible, 300);
}

TEST(ShardingSolve, RandomProblemsWithBindingLimits) {
  int binding = 0, infeasible = 0;
  for (std::uint64_t seed = 100'000; binding < 400; ++seed) {
    ASSERT_LT(seed, 105'000u);
    Random random(seed);
    Problem problem = random_problem(random);
    add_usages(random, problem);
    if (!bind_limits(random, problem)) continue;
    ++binding;
    const Solution solution = solve(problem);
    expect_optimal(problem, solution, seed);
    infeasible += solution.status == Status::kInfeasible;
  }
  EXPECT_GT(infeasible, 20);
  EXPECT_LT(infeasible, 300);
}

// All pairs of variables have costs, of few different values, so that bounds are far from the optimum.
Problem dense_problem(Random& random) {
  Problem problem;
  const int count = 7;
  for (int v = 0; v < count; ++v)
    problem.variables.push_back({0, random.below(3), random.below(3), random.below(3)});
  for (int v = 0; v < count; ++v) {
    for (int w = 0; w < v; ++w) {
      Edge edge{{w}, {v}, {}};
      for (int c = 0; c < 16; ++c) edge.costs.edit().push_back(random.below(20));
      problem.edges.push_back(std::move(edge));
    }
  }
  return problem;
}

// By branch and bound where elimination would do, without and with limits.
TEST(ShardingSolve, BranchAndBoundEqualsExhaustiveSearch) {
  SolveOptions options;
  options.table = 8;
  int searched = 0;
  for (std::uint64_t seed = 200'000; seed < 200'060; ++seed) {
    Random random(seed);
    Problem problem = dense_problem(random);
    if (seed % 2 == 1) {
      add_usages(random, problem);
      bind_limits(random, problem);
    }
    const Solution solution = solve(problem, options);
    expect_optimal(problem, solution, seed);
    searched += solution.branches > 5;
    expect_optimal(problem, solve(problem), seed);  // by elimination if limits do not bind
  }
  EXPECT_GT(searched, 20);
}

// Whether a choice is beaten, by a search that begins with it and ends at the first cheaper one.
TEST(ShardingSolve, AKnownChoiceIsBeatenIfAnyIsCheaper) {
  int beaten = 0, kept = 0;
  for (std::uint64_t seed = 210'000; seed < 210'100; ++seed) {
    Random random(seed);
    Problem problem = dense_problem(random);
    add_usages(random, problem);
    bind_limits(random, problem);
    const Solution best = solve(problem);
    if (!best.feasible()) continue;
    SolveOptions options;
    options.table = 8;
    options.any_cheaper = true;
    // The cheapest one, and any others that keep the limits.
    std::vector<Assignment> all = {best.choice};
    for (int k = 0; k < 200; ++k) {
      Assignment choice;
      for (const CostTable& costs : problem.variables) choice.push_back({random.below(count_of(costs))});
      if (price(problem, choice) != kForbidden) all.push_back(std::move(choice));
    }
    for (const Assignment& known : all) {
      options.known = known;
      const Solution found = solve(problem, options);
      ASSERT_TRUE(found.feasible()) << "seed " << seed;
      EXPECT_EQ(price(problem, found.choice), found.cost) << "seed " << seed;
      EXPECT_LE(found.bound, best.cost) << "seed " << seed;
      if (found.method != "branch and bound") continue;
      const bool cheaper = best.cost < price(problem, known);
      EXPECT_EQ(found.cost < price(problem, known), cheaper) << "seed " << seed;
      if (!cheaper) {
        EXPECT_EQ(found.choice, known) << "seed " << seed;
        EXPECT_EQ(found.status, Status::kOptimal) << "seed " << seed;
      }
      ++(cheaper ? beaten : kept);
    }
    // At the first one that costs so much, and the least where nothing does.
    for (const Cost enough : {Cost{0}, best.cost, best.cost + best.cost / 4}) {
      SolveOptions sooner;
      sooner.table = 8;
      sooner.enough = enough;
      const Solution found = solve(problem, sooner);
      ASSERT_TRUE(found.feasible()) << "seed " << seed;
      EXPECT_EQ(price(problem, found.choice), found.cost) << "seed " << seed;
      EXPECT_LE(found.cost, std::max(enough, best.cost)) << "seed " << seed;
      EXPECT_LE(found.bound, best.cost) << "seed " << seed;
    }
  }
  EXPECT_GT(beaten, 100);
  EXPECT_GT(kept, 20);
}

// Costs of 0 and 1 on all pairs: choices that are almost dominated, by a loss of 1.
TEST(ShardingSolve, LossesOfOne) {
  for (std::uint64_t seed = 600'000; seed < 600'300; ++seed) {
    Random random(seed);
    Problem problem;
    for (int v = 0; v < 4; ++v) {
      problem.variables.push_back({random.below(3), random.below(3), random.below(3)});
      for (int w = 0; w < v; ++w) {
        Edge edge{{w}, {v}, {}};
        for (int c = 0; c < 9; ++c) edge.costs.edit().push_back(random.one_in(4) ? 1 : 0);
        problem.edges.push_back(std::move(edge));
      }
    }
    expect_optimal(problem, solve(problem), seed);
  }
}

// Parts of equal structure with different costs, side by side: none may be taken for another.
TEST(ShardingSolve, IndependentParts) {
  for (std::uint64_t seed = 700'000; seed < 700'010; ++seed) {
    Random random(seed);
    Problem all;
    Cost expected = 0;
    for (int part = 0; part < 6; ++part) {
      const Problem one = dense_problem(random);
      expected += exhaustive(one);
      const int base = count_of(all.variables);
      all.variables.insert(all.variables.end(), one.variables.begin(), one.variables.end());
      for (const Edge& edge : one.edges) all.edges.push_back({edge.from + base, edge.to + base, edge.costs});
    }
    const Solution solution = solve(all);
    EXPECT_EQ(solution.cost, expected) << "seed " << seed;
    EXPECT_EQ(plain_cost(all, solution.choice, true), expected) << "seed " << seed;
  }
}

// Parts that differ in few costs: a table that was computed for one of them must not serve another.
TEST(ShardingSolve, PartsThatAreNearlyEqual) {
  for (std::uint64_t seed = 720'000; seed < 720'010; ++seed) {
    Random random(seed);
    const Problem base = dense_problem(random);
    Problem all;
    Cost expected = 0;
    for (int part = 0; part < 6; ++part) {
      Problem one = base;
      for (Edge& edge : one.edges) edge.costs.edit().back() += random.below(2) == 0 ? 0 : part * 7;
      expected += exhaustive(one);
      const int first = count_of(all.variables);
      all.variables.insert(all.variables.end(), one.variables.begin(), one.variables.end());
      for (const Edge& edge : one.edges)
        all.edges.push_back({edge.from + first, edge.to + first, edge.costs});
    }
    const Solution solution = solve(all);
    EXPECT_EQ(solution.cost, expected) << "seed " << seed;
    EXPECT_EQ(plain_cost(all, solution.choice, true), expected) << "seed " << seed;
  }
}

// The random problems with tables so small that some need branch and bound.
TEST(ShardingSolve, SmallTablesGiveTheSameCosts) {
  SolveOptions options;
  options.table = 8;
  for (std::uint64_t seed = 500'000; seed < 500'300; ++seed) {
    Random random(seed);
    const Problem problem = random_problem(random);
    expect_optimal(problem, solve(problem, options), seed);
  }
}

// With a small budget, cost and bound enclose the optimum.
TEST(ShardingSolve, BoundsHoldWhenTheBudgetEnds) {
  SolveOptions options;
  options.table = 8;
  int unproved = 0;
  for (std::uint64_t seed = 300'000; seed < 300'100; ++seed) {
    Random random(seed);
    Problem problem = seed % 2 == 0 ? dense_problem(random) : random_problem(random);
    if (seed % 4 >= 2) {
      add_usages(random, problem);
      bind_limits(random, problem);
    }
    const Cost best = exhaustive(problem);
    for (std::int64_t budget : {0, 300, 3000, 30'000, 300'000}) {
      options.budget = budget;
      const Solution solution = solve(problem, options);
      EXPECT_LE(solution.bound, best) << "seed " << seed;
      if (solution.feasible()) {
        EXPECT_GE(solution.cost, best) << "seed " << seed;
        EXPECT_EQ(plain_cost(problem, solution.choice, true), solution.cost) << "seed " << seed;
      }
      if (solution.proved()) {
        EXPECT_EQ(solution.cost, best) << "seed " << seed;
      }
      unproved += !solution.proved();
    }
  }
  EXPECT_GT(unproved, 50);
}

TEST(ShardingSolve, EqualTwice) {
  for (std::uint64_t seed = 400'000; seed < 400'050; ++seed) {
    Random random(seed);
    Problem problem = random_problem(random);
    add_usages(random, problem);
    bind_limits(random, problem);
    const Solution first = solve(problem), second = solve(problem);
    EXPECT_EQ(first.choice, second.choice);
    EXPECT_EQ(first.cells, second.cells);
  }
}

// Layers in a chain, each of five connected variables: the least sum is known in closed form, and equal
// layers are computed once.
Problem layers(int count) {
  constexpr int kChoices = 12;
  Problem problem;
  std::vector<Cost> costs(kChoices), table(kChoices * kChoices), between(kChoices * kChoices);
  for (int c = 0; c < kChoices; ++c) costs[c] = 10 + (c * 5) % kChoices;
  for (int i = 0; i < kChoices; ++i) {
    for (int j = 0; j < kChoices; ++j) {
      table[i * kChoices + j] = i == j ? 0 : 100 + std::abs(i - j);
      between[i * kChoices + j] = i == j ? 0 : 1;
    }
  }
  // All five variables of a layer are connected, and the last of one layer is connected to the first of the
  // next.
  for (int layer = 0; layer < count; ++layer) {
    const int base = layer * 5;
    for (int v = 0; v < 5; ++v) problem.variables.push_back(costs);
    for (int v = 0; v < 5; ++v) {
      for (int w = 0; w < v; ++w) problem.edges.push_back({base + w, base + v, table});
    }
    if (layer > 0) problem.edges.push_back({base - 1, base, between});
  }
  return problem;
}

TEST(ShardingSolve, EqualLayersAreComputedOnce) {
  const Solution few = solve(layers(4)), many = solve(layers(64));
  EXPECT_EQ(few.cost, 4 * 5 * 10);
  EXPECT_EQ(many.cost, 64 * 5 * 10);
  EXPECT_EQ(many.status, Status::kOptimal);
  // The tables of elimination are 12^5 cells; 60 layers more add less than ten of them.
  EXPECT_LT(many.cells - few.cells, 10 * 248'832);
}

// Equal layers of up to three variables, with one variable after the last layer; the first layer lacks the
// edges from earlier ones. All may depend on a variable outside. Variables are numbered in any order.
Problem random_layers(Random& random) {
  const int most = random.one_in(3) ? 4 : 1000, forbidden_one_in = random.one_in(2) ? 0 : 4 + random.below(8);
  const int inside = 2 + random.below(2);
  std::vector<int> sizes;
  int combinations = 1;
  for (int v = 0; v < inside; ++v) combinations *= sizes.emplace_back(1 + random.below(inside == 2 ? 4 : 3));
  int layers = 4, all = combinations * combinations * combinations * combinations;
  while (layers < 9 && all * combinations <= 8'000) ++layers, all *= combinations;
  const auto costs = [&](int size) {
    std::vector<Cost> own;
    for (int c = 0; c < size; ++c) own.push_back(random_cost(random, most, forbidden_one_in));
    return own;
  };
  Problem problem;
  const int outside = 1 + random.below(2), ends = 1 + random.below(2);
  problem.variables = {costs(outside), costs(ends)};
  std::vector<std::vector<Cost>> own;
  for (const int size : sizes) own.push_back(costs(size));
  // A table from a variable of a layer, or from outside, to a variable of the same or a later layer.
  // `turned`: the edge runs the other way round.
  enum class From : std::uint8_t { outside, layer };
  struct Pattern {
    From where;
    int from, to, later;
    bool turned;
    CostTable costs;
  };
  std::vector<Pattern> patterns;
  const auto add = [&](From where, int from, int to, int later) {
    const int cells = (where == From::outside ? outside : sizes[from]) * sizes[to];
    patterns.push_back({where, from, to, later, random.one_in(3), costs(cells)});
  };
  for (int v = 0; v < inside; ++v) {
    for (int w = 0; w < v; ++w) {
      if (!random.one_in(4)) add(From::layer, w, v, 0);
    }
    if (random.one_in(3)) add(From::outside, 0, v, 0);
  }
  for (int links = random.one_in(3) ? 2 : 1; links > 0; --links)
    add(From::layer, random.below(inside), random.below(inside), 1);
  if (random.one_in(6)) add(From::layer, random.below(inside), random.below(inside), 2);
  for (int layer = 0; layer < layers; ++layer) {
    const auto variable = [&](int v, int of_layer) { return 2 + of_layer * inside + v; };
    problem.variables.insert(problem.variables.end(), own.begin(), own.end());
    for (const Pattern& p : patterns) {
      if (p.later > layer) continue;
      const int from = p.where == From::outside ? 0 : variable(p.from, layer - p.later),
                to = variable(p.to, layer);
      problem.edges.push_back({{p.turned ? to : from}, {p.turned ? from : to}, p.costs});
    }
  }
  const VariableId last = problem.variables.end_id() - 1;
  problem.edges.push_back({last, {1}, costs(sizes.back() * ends)});
  // Numbered in any order.
  IdVector<VariableId, VariableId> number;
  for (const VariableId v : problem.variables.ids()) number.push_back(v);
  if (random.one_in(2)) {
    for (VariableId v = last; v.index > 0; --v) std::swap(number[v], number[{random.below(v.index + 1)}]);
  }
  Problem result;
  result.variables.resize(number.size());
  for (const VariableId v : number.ids()) result.variables[number[v]] = problem.variables[v];
  for (const Edge& edge : problem.edges)
    result.edges.push_back({number[edge.from], number[edge.to], edge.costs});
  result.order = number;
  return result;
}

// The inside of equal layers is reduced once, and the optimum stays the same.
TEST(ShardingSolve, FoldedLayersHaveTheSameOptimum) {
  int folded = 0, infeasible = 0;
  SolveOptions small;
  small.table = 2;
  for (std::uint64_t seed = 800'000; seed < 800'400; ++seed) {
    Random random(seed);
    const Problem problem = random_layers(random);
    const auto layers = FoldedProblem::of(problem);
    folded += layers.has_value();
    if (layers) {
      EXPECT_GE(layers->layers(), 3);
      EXPECT_LT(layers->problem().variables.size(), problem.variables.size()) << "seed " << seed;
    }
    const Solution solution = solve(problem);
    expect_optimal(problem, solution, seed);
    expect_optimal(problem, solve(problem, small), seed);
    infeasible += solution.status == Status::kInfeasible;
  }
  EXPECT_GT(folded, 100);
  EXPECT_LT(infeasible, 200);
}

// Layers whose inside only elimination removes: it leaves tables over the border before them, their own
// border, and the variables outside. Compared with a table from border to border, which enumerates each
// layer.
TEST(ShardingSolve, LayersLeaveTablesOverSeveralVariables) {
  int with_factors = 0, feasible = 0;
  for (std::uint64_t seed = 840'000; seed < 840'150; ++seed) {
    Random random(seed);
    const int layers = 4 + random.below(4), inside = 5;  // the last of which is the border
    const int most = random.one_in(3) ? 4 : 1000,
              forbidden_one_in = random.one_in(2) ? 0 : 6 + random.below(10);
    const auto costs = [&](int size) {
      std::vector<Cost> own;
      for (int c = 0; c < size; ++c) own.push_back(random_cost(random, most, forbidden_one_in));
      return own;
    };
    // Two outside, the border before, and those inside.
    std::vector<int> sizes;
    for (int v = 0; v < 2 + 1 + inside; ++v) sizes.push_back(2 + random.below(2));
    sizes[2] = sizes.back();
    struct Table {
      int a, b;
      std::vector<Cost> costs;
    };
    std::vector<Table> tables;  // of a layer
    std::vector<std::vector<Cost>> own;
    for (const int size : sizes) own.push_back(costs(size));
    for (int b = 3; b < static_cast<int>(sizes.size()); ++b) {
      for (int a = 0; a < b; ++a) {
        if (a == 2 || !random.one_in(4)) tables.push_back({a, b, costs(sizes[a] * sizes[b])});
      }
    }
    Problem problem;
    problem.variables = {own[0], own[1], own[2]};
    for (int layer = 0; layer < layers; ++layer) {
      const int begin = 3 + layer * inside;  // what stands before it is the border
      const auto variable = [&](int v) { return v < 2 ? v : begin - 3 + v; };
      for (int v = 3; v < 3 + inside; ++v) problem.variables.push_back(own[v]);
      for (const Table& t : tables) problem.edges.push_back({variable(t.a), variable(t.b), t.costs});
    }
    // The least of what is known up to a border, by both outside and the border.
    const auto sum = [](Cost a, Cost b) { return a == kForbidden || b == kForbidden ? kForbidden : a + b; };
    Cost least = kForbidden;
    for (int o = 0; o < sizes[0] * sizes[1]; ++o) {
      std::vector<Cost> known = own[2];
      for (int layer = 0; layer < layers; ++layer) {
        std::vector<Cost> next(sizes.back(), kForbidden);
        std::vector<int> choice(sizes.size(), 0);
        choice[0] = o / sizes[1];
        choice[1] = o % sizes[1];
        for (bool done = false; !done;) {
          Cost cost = known[choice[2]];
          for (int v = 3; v < static_cast<int>(sizes.size()); ++v) cost = sum(cost, own[v][choice[v]]);
          for (const Table& t : tables) cost = sum(cost, t.costs[choice[t.a] * sizes[t.b] + choice[t.b]]);
          next[choice.back()] = std::min(next[choice.back()], cost);
          std::size_t v = 2;
          while (v < choice.size() && ++choice[v] == sizes[v]) choice[v++] = 0;
          done = v == choice.size();
        }
        known = next;
      }
      for (const Cost cost : known)
        least = std::min(least, sum(cost, sum(own[0][o / sizes[1]], own[1][o % sizes[1]])));
    }
    const auto folded = FoldedProblem::of(problem, 1 << 20);
    with_factors += folded && !folded->factors().empty();
    SolveOptions small;  // then a search has pairs only
    small.table = 2;
    for (const SolveOptions& options : {SolveOptions(), small}) {
      const Solution solution = solve(problem, options);
      EXPECT_EQ(solution.status, least == kForbidden ? Status::kInfeasible : Status::kOptimal)
          << "seed " << seed;
      EXPECT_EQ(solution.bound, least) << "seed " << seed;
      if (least == kForbidden) continue;
      EXPECT_EQ(solution.cost, least) << "seed " << seed;
      EXPECT_EQ(plain_cost(problem, solution.choice, true), least) << "seed " << seed;
    }
    feasible += least != kForbidden;
  }
  EXPECT_GT(with_factors, 75);
  EXPECT_GT(feasible, 75);
}

// Layers with copies of the variables outside, which have costs and tables of their own. Where the copies
// agree, the choice is the cheapest one. Compared with the least cost up to each border, for every choice
// outside.
TEST(ShardingSolve, LayersWithCopiesOfWhatIsOutside) {
  int agreed = 0, disagreed = 0, feasible = 0;
  for (std::uint64_t seed = 870'000; seed < 870'300; ++seed) {
    Random random(seed);
    const int layers = 4 + random.below(5), inside = 3;  // the last of which is the border
    // Costs outside are small beside those of layers, or of their size.
    const int most = random.one_in(3) ? 5 : 1000, most_outside = random.one_in(2) ? most : most / 4 + 1;
    const int forbidden_one_in = random.one_in(2) ? 0 : 5 + random.below(10);
    const auto costs = [&](int size, int largest) {
      std::vector<Cost> own;
      for (int c = 0; c < size; ++c) own.push_back(random_cost(random, largest, forbidden_one_in));
      return own;
    };
    // The variable that both outside depend on, these two, the border before the first layer, and the
    // variables of a layer.
    constexpr int kOutside = 3, kBorder = 3, kInside = 4;
    std::vector<int> sizes;
    for (int v = 0; v < kInside + inside; ++v) sizes.push_back(2 + random.below(2));
    sizes[kBorder] = sizes.back();
    std::vector<std::vector<Cost>> own;
    for (int v = 0; v < static_cast<int>(sizes.size()); ++v)
      own.push_back(costs(sizes[v], v < kOutside ? most_outside : most));
    struct Table {
      int a, b;
      std::vector<Cost> costs;
    };
    std::vector<Table> outside, tables;
    for (const int b : {1, 2}) outside.push_back({0, b, costs(sizes[0] * sizes[b], most_outside)});
    if (random.one_in(3)) outside.push_back({1, 2, costs(sizes[1] * sizes[2], most_outside)});
    for (int b = kInside; b < static_cast<int>(sizes.size()); ++b) {
      for (int a = 1; a < b; ++a) {
        if (a == kBorder || !random.one_in(4)) tables.push_back({a, b, costs(sizes[a] * sizes[b], most)});
      }
    }
    Problem problem;
    problem.variables.assign(own.begin(), own.begin() + kInside);
    for (const Table& t : outside) problem.edges.push_back({t.a, t.b, t.costs});
    for (int layer = 0; layer < layers; ++layer) {
      const auto variable = [&](int v) { return v < kOutside ? v : v + layer * inside; };
      problem.variables.insert(problem.variables.end(), own.begin() + kInside, own.end());
      for (const Table& t : tables) problem.edges.push_back({variable(t.a), variable(t.b), t.costs});
    }
    const auto sum = [](Cost a, Cost b) { return a == kForbidden || b == kForbidden ? kForbidden : a + b; };
    const auto add = [&](Cost cost, const std::vector<Table>& all, const std::vector<int>& choice) {
      for (const Table& t : all) cost = sum(cost, t.costs[choice[t.a] * sizes[t.b] + choice[t.b]]);
      return cost;
    };
    Cost least = kForbidden;
    for (int o = 0; o < sizes[0] * sizes[1] * sizes[2]; ++o) {
      std::vector<int> choice(sizes.size(), 0);
      choice[0] = o % sizes[0];
      choice[1] = o / sizes[0] % sizes[1];
      choice[2] = o / sizes[0] / sizes[1];
      Cost before = add(0, outside, choice);
      for (int v = 0; v < kOutside; ++v) before = sum(before, own[v][choice[v]]);
      std::vector<Cost> known = own[kBorder];
      for (int layer = 0; layer < layers; ++layer) {
        std::vector<Cost> next(sizes.back(), kForbidden);
        for (bool done = false; !done;) {
          Cost cost = add(known[choice[kBorder]], tables, choice);
          for (int v = kInside; v < static_cast<int>(sizes.size()); ++v) cost = sum(cost, own[v][choice[v]]);
          next[choice.back()] = std::min(next[choice.back()], cost);
          std::size_t v = kBorder;
          while (v < choice.size() && ++choice[v] == sizes[v]) choice[v++] = 0;
          done = v == choice.size();
        }
        known = next;
      }
      for (const Cost cost : known) least = std::min(least, sum(cost, before));
    }
    constexpr Cost kTotal = 1'000'000;
    const auto folded = FoldedProblem::with_copies(problem, 1 << 20, kTotal);
    if (folded && !folded->copies().empty()) {
      std::int64_t cells = 0;
      const auto choice = choose_with_copies(problem, *folded, 1 << 20, cells);
      (choice ? agreed : disagreed) += 1;
      if (choice) {
        EXPECT_EQ(plain_cost(problem, *choice, true), least) << "seed " << seed;
      }
    }
    const Solution solution = solve(problem);
    EXPECT_EQ(solution.bound, least) << "seed " << seed;
    EXPECT_EQ(solution.status, least == kForbidden ? Status::kInfeasible : Status::kOptimal)
        << "seed " << seed;
    feasible += least != kForbidden;
    if (least != kForbidden) {
      EXPECT_EQ(plain_cost(problem, solution.choice, true), least) << "seed " << seed;
    }
  }
  std::printf("copies agreed in %d of %d problems\n", agreed, agreed + disagreed);
  EXPECT_GT(agreed, 50);
  EXPECT_GT(disagreed, 5);
  EXPECT_GT(feasible, 150);
}

// One cost that differs in one layer: it is not taken for the others.
TEST(ShardingSolve, LayersThatAreNearlyEqualAreNotFolded) {
  for (std::uint64_t seed = 820'000; seed < 820'200; ++seed) {
    Random random(seed);
    Problem problem = random_layers(random);
    if (random.one_in(2)) {
      std::vector<Cost>& costs = problem.variables[{random.below(count_of(problem.variables))}].edit();
      costs[0] = costs[0] == kForbidden ? 3 : costs[0] + 5;
    } else {
      Edge& edge = problem.edges[{random.below(count_of(problem.edges))}];
      edge.costs.edit()[0] = edge.costs[0] == kForbidden ? 3 : edge.costs[0] + 5;
    }
    expect_optimal(problem, solve(problem), seed);
  }
}

TEST(ShardingSolve, ForbiddenEverywhereIsInfeasible) {
  Problem problem{{{1, 2}, {3, kForbidden}}, {{0, 1, {kForbidden, 1, kForbidden, 1}}}, {}, {}};
  EXPECT_EQ(solve(problem).status, Status::kInfeasible);
  problem.edges[{0}].costs.edit()[2] = 7;
  const Solution solution = solve(problem);
  EXPECT_EQ(solution.cost, 2 + 3 + 7);
  EXPECT_EQ(solution.choice, (Assignment{{1}, {0}}));
}

TEST(ShardingSolve, LimitsThatNothingKeepsAreInfeasible) {
  Problem problem{{{1, 2}, {3, 4}}, {}, {{0, {10, 5}, {{0, 1}}}, {1, {10, 5}, {{0, 1}}}}, {9}};
  EXPECT_EQ(solve(problem).status, Status::kInfeasible);
  problem.limits[{0}] = 10;
  EXPECT_EQ(solve(problem).cost, 6);
  problem.limits[{0}] = 15;
  EXPECT_EQ(solve(problem).cost, 5);
  problem.limits[{0}] = 20;
  EXPECT_EQ(solve(problem).cost, 4);
  problem.limits[{0}] = -1;
  EXPECT_EQ(solve(problem).status, Status::kInfeasible);
}

// Runs on a thread with as small a stack as some systems give: removed variables are forgotten one after
// another.
TEST(ShardingSolve, ManyVariablesNeedLittleStack) {
  constexpr int kVariables = 50'000;
  Problem problem;
  Random random(20261126);
  const auto costs = [&](int count) {
    std::vector<Cost> all;
    for (int k = 0; k < count; ++k) all.push_back(random.below(1000));
    return all;
  };
  std::vector<Cost> least(2, 0);  // of all before, by the choice of the last one
  for (int v = 0; v < kVariables; ++v) {
    problem.variables.push_back(costs(2));
    std::vector<Cost> next(2, 0);
    if (v > 0) problem.edges.push_back({v - 1, v, costs(4)});
    for (std::size_t c = 0; c < 2; ++c) {
      if (v > 0)
        next[c] =
            std::min(least[0] + problem.edges.back().costs[c], least[1] + problem.edges.back().costs[2 + c]);
      next[c] += problem.variables.back()[c];
    }
    least = next;
  }
  struct Call {
    const Problem& problem;
    Solution solution;
  } call{problem, {}};
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, std::size_t{1} << 19), 0);
  pthread_t thread;
  const auto run = [](void* given) -> void* {
    auto& own = *static_cast<Call*>(given);
    own.solution = solve(own.problem);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &call), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(call.solution.cost, *std::ranges::min_element(least));
}

TEST(ShardingSolve, NothingToChoose) {
  const Solution solution = solve(Problem{});
  EXPECT_EQ(solution.status, Status::kOptimal);
  EXPECT_EQ(solution.cost, 0);
}

TEST(ShardingSolve, CostsThatOverflowAreRefused) {
  Problem problem{{{kLargestTotal}, {0}}, {}, {}, {}};
  EXPECT_EQ(solve(problem).cost, kLargestTotal);
  problem.variables[{1}].edit()[0] = 1;
  try {
    solve(problem);
    FAIL();
  } catch (const ir::UserError& error) {
    EXPECT_EQ(error.code(), 480);
    EXPECT_NE(error.hint().find("by 3 or more"), std::string::npos) << error.hint();
  }
}

TEST(ShardingSolve, LargeCostsStayExact) {
  const Cost large = kLargestTotal / 8;
  Problem problem{{{large, large - 1}, {large, large - 1}, {5, 4}},
                  {{0, 1, {0, large, large, 3}}, {1, 2, {0, 1, 2, 3}}, {0, 2, {1, 0, 0, 1}}},
                  {{0, {0, 100}, {{0, 1}}}, {1, {0, 100}, {{0, 1}}}},
                  {150}};
  EXPECT_EQ(solve(problem).cost, exhaustive(problem));
}

TEST(ShardingSolve, MalformedProblemsAreInternalErrors) {
  const Problem good{{{1, 2}, {3, 4}}, {{0, 1, {0, 0, 0, 0}}}, {{0, {1, 1}, {{0, 1}}}}, {5}};
  EXPECT_NO_THROW(solve(good));
  const auto refused = [&](auto&& change) {
    Problem bad = good;
    change(bad);
    EXPECT_THROW(solve(bad), ir::InternalError);
  };
  refused([](Problem& p) { p.variables[{0}] = CostTable(); });
  refused([](Problem& p) { p.variables[{0}].edit()[0] = -1; });
  refused([](Problem& p) { p.edges[{0}].costs.edit().pop_back(); });
  refused([](Problem& p) { p.edges[{0}].to = {2}; });
  refused([](Problem& p) { p.usages[0].bytes.push_back(1); });
  refused([](Problem& p) { p.usages[0].bytes[{0}] = -5; });
  refused([](Problem& p) { p.usages[0].rows[0].end = {2}; });
  refused([](Problem& p) { p.usages[0].variable = {2}; });
}

}  // namespace
}  // namespace braid::solver
