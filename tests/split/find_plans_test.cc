// The plans of several meshes at once, on several threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "split/candidates.h"
#include "split/machine_costs.h"
#include "tests/split/two_products.h"
#include "tests/support/random.h"

namespace braid::frontend::sharding {
namespace {

const std::vector<Mesh>& some_meshes() {
  static const std::vector<Mesh> all = {Mesh::line(1),
                                        Mesh::line(2),
                                        Mesh::line(8),
                                        Mesh::line(4),
                                        parse_mesh("a=2,b=2", "mesh"),
                                        parse_mesh("a=2,b=2,c=2", "mesh")};
  return all;
}

// Calls `use` with graphs on machines at sizes.
template <class Use>
void each_graph(const Use& use) {
  ImportOptions open;
  open.dims["n"] = {1, 4096};
  for (const char* machine : {"cpu", "h100", "a100"}) {
    for (const int hidden : {8, 64}) {
      for (const int rows : {1, 64, 4096}) {
        const auto costs = std::make_shared<const analysis::CostModel>(
            analysis::cost_model_for(machine)->machine(), analysis::CostOptions{.dims = {{"n", rows}}});
        with_graph(two_products("n", hidden), open, [&](const Graph& graph) {
          SCOPED_TRACE(fmt::format("{} hidden {} rows {}", machine, hidden, rows));
          use(graph, costs);
        });
      }
    }
  }
}

TEST(FindPlans, OnSeveralMeshesAreThoseOfEach) {
  int split = 0;
  each_graph([&](const Graph& graph, const std::shared_ptr<const analysis::CostModel>& costs) {
    const std::vector<FoundPlans> together = find_plans(graph, some_meshes(), costs, {});
    const std::vector<FoundPlans> again = find_plans(graph, some_meshes(), costs, {});
    ASSERT_EQ(together.size(), some_meshes().size());
    analysis::Time loads = analysis::Time::max(), order = loads, least_loads = loads, least_order = loads;
    for (std::size_t m = 0; m < together.size(); ++m) {
      SCOPED_TRACE(to_string(some_meshes()[m]));
      const FoundPlans alone = find_plans(graph, {some_meshes()[m]}, costs, {})[0];
      ASSERT_EQ(together[m].plans.size(), alone.plans.size());
      for (std::size_t p = 0; p < alone.plans.size(); ++p) {
        EXPECT_EQ(together[m].plans[p].text, alone.plans[p].text);
        EXPECT_EQ(together[m].plans[p].name, alone.plans[p].name);
        EXPECT_EQ(together[m].plans[p].predicted, alone.plans[p].predicted);
        EXPECT_EQ(together[m].plans[p].floor, alone.plans[p].floor);
        EXPECT_EQ(again[m].plans[p].text, alone.plans[p].text);
        split += !alone.plans[p].splits_nothing();
      }
      EXPECT_EQ(together[m].loads, again[m].loads);
      EXPECT_EQ(together[m].order, again[m].order);
      EXPECT_LE(together[m].loads, alone.loads);
      EXPECT_LE(together[m].order, alone.order);
      loads = std::min(loads, together[m].loads);
      order = std::min(order, together[m].order);
      least_loads = std::min(least_loads, alone.loads);
      least_order = std::min(least_order, alone.order);
    }
    // Only that of the least counts, and is as close as alone.
    EXPECT_GE(loads.ps, least_loads.ps - least_loads.ps / 1000);
    EXPECT_GE(order.ps, least_order.ps - least_order.ps / 1000);
  });
  EXPECT_GT(split, 50);
}

// One mesh after another, each held to the bounds of those before, the one with the most ranks first: losses
// do not add up.
TEST(FindPlans, BoundsHeldToThoseOfOtherMeshesAreAsCloseTogether) {
  int less = 0;
  each_graph([&](const Graph& graph, const std::shared_ptr<const analysis::CostModel>& costs) {
    KnownBounds known;
    analysis::Time loads = analysis::Time::max(), order = loads, least_loads = loads, least_order = loads;
    for (const Mesh& mesh : {parse_mesh("a=2,b=2,c=2", "mesh"), parse_mesh("a=2,b=2", "mesh"), Mesh::line(4),
                             Mesh::line(2), Mesh::line(1)}) {
      SCOPED_TRACE(to_string(mesh));
      SearchOptions held;
      held.known = known;
      const FoundPlans alone = find_plans(graph, {mesh}, costs, {})[0],
                       own = find_plans(graph, {mesh}, costs, held)[0];
      ASSERT_EQ(own.plans.size(), alone.plans.size());
      EXPECT_LE(own.loads, alone.loads);
      EXPECT_LE(own.order, alone.order);
      less += own.loads < alone.loads || own.order < alone.order ? 1 : 0;
      known.add(own.loads, own.order);
      loads = std::min(loads, own.loads);
      order = std::min(order, own.order);
      least_loads = std::min(least_loads, alone.loads);
      least_order = std::min(least_order, alone.order);
    }
    EXPECT_GE(loads.ps, least_loads.ps - least_loads.ps / 1000);
    EXPECT_GE(order.ps, least_order.ps - least_order.ps / 1000);
  });
  EXPECT_GT(less, 0);
}

// Plans are not searched for if the nodes of the cheapest plan hardly take more than the least: they would
// have gained as little.
TEST(FindPlans, LeaveOutOnlyPlansThatHardlyGain) {
  int left_out = 0;
  each_graph([&](const Graph& graph, const std::shared_ptr<const analysis::CostModel>& costs) {
    for (const Mesh& mesh : some_meshes()) {
      SCOPED_TRACE(to_string(mesh));
      const SplitSpace space(graph, mesh);
      if (space.large()) continue;
      const Solution cheapest = solve(space.problem(split_costs(costs)));
      ASSERT_TRUE(cheapest.proved());
      const std::vector<FoundPlan> plans = find_plans(graph, {mesh}, costs, {})[0].plans;
      const SplitCosts free = split_costs(costs, {0, 0});
      EXPECT_LE(space.least_of_nodes(free), solve(space.problem(free)).cost);
      for (const int communication : {500, 100}) {
        const Problem weighted = space.problem(split_costs(costs, {communication, 0}));
        const Cost best = solve(weighted).cost;
        Cost found = kForbidden;
        for (const FoundPlan& plan : plans) found = std::min(found, price(weighted, plan.choice));
        EXPECT_LE(found - best, cheapest.cost / 1000 + 10) << communication;
        left_out += found != best;
      }
    }
  });
  RecordProperty("left_out", left_out);
}

// Products and sums of earlier results, in some order. `spelled`: every second operator spells out a default,
// so that no two neighbours are of one kind.
std::string random_products(std::uint64_t seed, bool spelled) {
  std::mt19937_64 random(seed);
  constexpr int kNodes = 9, kWeights = 3;
  std::string text = "g (float[32,32] x) => (float[32,32] y) <";
  for (int w = 0; w < kWeights; ++w) text += (w > 0 ? ", " : "") + weight(fmt::format("w{}", w), 32, 32);
  text += "> {\n";
  std::vector<std::string> known = {"x"};
  std::string last = "x";
  for (int n = 0; n < kNodes; ++n) {
    const std::string input = known[random() % known.size()], name = fmt::format("t{}", n);
    const bool says = spelled && n % 2 == 1;
    if (random() % 4 == 0) {
      text += fmt::format("{} = Softmax{}({})\n", name, says ? " <axis = -1>" : "", input);
    } else {
      text += fmt::format("{} = Gemm{}({}, w{})\n", name, says ? " <alpha = 1.0>" : "", input,
                          random() % kWeights);
    }
    text += fmt::format("s{} = Add({}, {})\n", n, last, name);
    last = fmt::format("s{}", n);
    known.push_back(name);
  }
  return text + fmt::format("y = Identity({}) }}", last);
}

// Equal nodes share their choices and tables; the same plans and bounds are found where nothing can be
// shared.
TEST(FindPlans, AreThoseOfNodesThatShareNothing) {
  const std::vector<Mesh> meshes = {Mesh::line(2), parse_mesh("a=2,b=2", "mesh")};
  for (int k = 0; k < test::random_cases(8); ++k) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(k);
    for (const char* machine : {"cpu", "h100"}) {
      SCOPED_TRACE(fmt::format("{} seed {}", machine, seed));
      const auto costs = analysis::cost_model_for(machine);
      std::vector<FoundPlans> found[2];
      for (const bool spelled : {false, true}) {
        with_graph(random_products(seed, spelled), {}, [&](const Graph& graph) {
          found[spelled ? 1 : 0] = find_plans(graph, meshes, costs, {});
        });
      }
      for (std::size_t m = 0; m < meshes.size(); ++m) {
        EXPECT_EQ(found[0][m].loads, found[1][m].loads);
        EXPECT_EQ(found[0][m].order, found[1][m].order);
        ASSERT_EQ(found[0][m].plans.size(), found[1][m].plans.size());
        for (std::size_t p = 0; p < found[0][m].plans.size(); ++p)
          EXPECT_EQ(found[0][m].plans[p].predicted, found[1][m].plans[p].predicted);
      }
    }
  }
}

// Two equal nodes whose inputs are given in different states: the cost of reading them is added to tables
// that they share.
TEST(FindPlans, EqualNodesOfOtherInputsCostWhatTheyDoAlone) {
  const auto costs = split_costs(analysis::cost_model_for("cpu"));
  with_graph(
      "g (float[64,64] a, float[64,64] b) => (float[64,64] y, float[64,64] z) { y = Relu(a)\n z = Relu(b) }",
      {}, [&](const Graph& graph) {
        const ValueId a = graph.find("a"), b = graph.find("b");
        const auto problem = [&](const std::vector<ValueId>& given) {
          SpaceOptions options;
          for (const ValueId value : given) options.given[value] = {Spec::split(0)};
          return SplitSpace(graph, Mesh::line(2), options).problem(costs);
        };
        const Problem none = problem({}), one = problem({a}), both = problem({a, b});
        const VariableId y{0}, z{1};
        EXPECT_EQ(one.variables[y], both.variables[y]);
        EXPECT_EQ(one.variables[z], none.variables[z]);
        EXPECT_NE(one.variables[y], one.variables[z]);
      });
}

}  // namespace
}  // namespace braid::frontend::sharding
