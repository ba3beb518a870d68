// Plans of several programs with one layout of their weights, against trying all plans.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "frontend/sharding/split.h"
#include "ir/error_numbers.h"
#include "split/machine_costs.h"
#include "split/memory_rows.h"
#include "split/plan_search.h"
#include "split/shared_tensors.h"
#include "tests/frontend/models.h"
#include "tests/solver/next_choice.h"
#include "tests/split/two_products.h"
#include "tests/support/random.h"

namespace braid::frontend::sharding {
namespace {

using ::testing::HasSubstr;

// Two products of so many rows.
std::string network(int rows, int hidden, int seed = 0) {
  return fmt::format(
      "g (float[{3},{0}] x) => (float[{3},{0}] y) <{1}, {2}> {{ h = MatMul(x, up)\n r = Relu(h)\n d = "
      "MatMul(r, down)\n y = Softmax(d) }}",
      hidden, weight("up", hidden, 2 * hidden), weight("down", 2 * hidden, hidden, seed), rows);
}

// The graphs of all these texts at once.
void with_graphs(const std::vector<std::string>& texts,
                 const std::function<void(std::vector<const Graph*>)>& use,
                 std::vector<const Graph*> so_far = {}) {
  if (so_far.size() == texts.size()) {
    use(so_far);
    return;
  }
  auto request = std::make_shared<SplitRequest>();
  request->choose = [&](const Graph& graph, const Mesh& mesh) {
    std::vector<const Graph*> more = so_far;
    more.push_back(&graph);
    with_graphs(texts, use, more);
    return MeshPlan(mesh);
  };
  ImportOptions options;
  options.ranks = 2;
  options.split = request;
  import_text(texts[so_far.size()], options, 18);
}

std::vector<std::string> files(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < count; ++k) names.push_back(fmt::format("{}.onnx", k));
  return names;
}

// Returns the least cost of all choices that take at most `memory` bytes, by the states in which 'up' and
// 'down' are taken.
using Layout = std::pair<MeshSpec, MeshSpec>;
std::map<Layout, Cost> by_trying_all(const Graph& graph, const SplitSpace& space, const SplitCosts& costs,
                                     std::optional<std::int64_t> memory) {
  const Problem problem = space.problem(costs);
  const MemoryRows rows(graph, space, costs.size);
  std::vector<VariableId> products;
  for (const VariableId v : space.node_variables()) {
    if (graph.nodes[space.node_of(v)].op == "MatMul") products.push_back(v);
  }
  std::map<Layout, Cost> best;
  Assignment choice = solver::first_choice(problem);
  do {
    if (const Cost own = price(problem, choice);
        own != kForbidden && (!memory || rows.of_plan(choice) <= *memory)) {
      const auto taken = [&](VariableId v) { return space.taken_state(v, choice[v], 1); };
      const auto [entry, fresh] = best.try_emplace({taken(products.at(0)), taken(products.at(1))}, own);
      if (!fresh) entry->second = std::min(entry->second, own);
    }
  } while (solver::next_choice(problem, choice));
  return best;
}

// Returns the states of the weights in a plan.
Layout layout_of(const std::string& plan) {
  const MeshPlan read = parse_mesh_plan(plan, "");
  const auto state = [&](const char* name, const char* reader) {
    return MeshSpec{read.axes.at(0).of_reader(name, reader, 1, Spec::replicated())};
  };
  return {state("up", "h"), state("down", "d")};
}

TEST(Together, TheLayoutIsTheCheapestOfAll) {
  int compared = 0, compromises = 0, limited = 0, impossible = 0;
  std::mt19937_64 random(static_cast<std::uint64_t>(test::first_seed(20261126)));
  for (int k = 0; k < test::random_cases(40); ++k) {
    const int hidden = random() % 2 == 0 ? 8 : 64;
    const auto costs = machine(random() % 2 == 0 ? "cpu" : "h100");
    const int ranks = random() % 2 == 0 ? 2 : 4, count = 2 + static_cast<int>(random() % 2);
    std::vector<std::string> texts;
    std::vector<PlannedProgram> programs;
    for (int p = 0; p < count; ++p) {
      texts.push_back(network(1 << random() % 13, hidden));
      programs.push_back({nullptr, costs, {}});
      programs.back().options.steps = 1 + static_cast<std::int64_t>(random() % 300);
    }
    SCOPED_TRACE(k);
    with_graphs(texts, [&](const std::vector<const Graph*>& graphs) {
      std::optional<std::int64_t> memory;
      for (const bool limit : {false, true}) {
        std::map<Layout, Cost> sums;
        Cost alone = 0;
        std::int64_t most = 0;
        for (int p = 0; p < count; ++p) {
          const auto own = static_cast<std::size_t>(p);
          programs[own].graph = graphs[own];
          programs[own].options.memory = memory;
          const SplitSpace space(*graphs[own], ranks);
          const auto best = by_trying_all(*graphs[own], space, split_costs(costs), memory);
          Cost least = kForbidden;
          for (const auto& [layout, cost] : best) least = std::min(least, cost);
          if (least != kForbidden) alone += least * programs[own].options.steps;
          std::map<Layout, Cost> next;
          for (const auto& [layout, cost] : best) {
            const auto before = sums.find(layout);
            if (p == 0 || before != sums.end())
              next[layout] = (p == 0 ? 0 : before->second) + cost * programs[own].options.steps;
          }
          sums = std::move(next);
        }
        Cost expected = kForbidden;
        for (const auto& [layout, cost] : sums) expected = std::min(expected, cost);
        const SharedTensors shared = shared_tensors(graphs, files(texts.size()));
        EXPECT_EQ(shared.count, 2);
        const FoundPlans found = find_plans_on(Mesh::line(ranks), programs, shared, known_works(programs));
        ++compared;
        ASSERT_EQ(found.plans.empty(), expected == kForbidden);
        if (expected == kForbidden) {
          ++impossible;
          return;
        }
        const FoundPlan& plan = found.plans[0];
        EXPECT_EQ(plan.predicted.ps, expected);
        EXPECT_TRUE(plan.proved);
        EXPECT_LE(found.order, plan.predicted);
        EXPECT_EQ(plan.with.size(), programs.size() - 1);
        Cost sum = plan.own.ps, own_best = plan.alone.ps;
        EXPECT_GE(plan.own, plan.alone);
        for (const FoundPlan& other : plan.with) {
          EXPECT_EQ(layout_of(other.text), layout_of(plan.text));
          EXPECT_GE(other.own, other.alone);
          sum += other.own.ps;
          own_best += other.alone.ps;
        }
        EXPECT_EQ(sum, expected);
        EXPECT_EQ(own_best, alone);
        compromises += expected > alone ? 1 : 0;
        limited += limit ? 1 : 0;

        // In another order the same plans.
        std::vector<PlannedProgram> turned(programs.rbegin(), programs.rend());
        const std::vector<const Graph*> turned_graphs(graphs.rbegin(), graphs.rend());
        const FoundPlans again =
            find_plans_on(Mesh::line(ranks), turned, shared_tensors(turned_graphs, files(texts.size())),
                          known_works(turned));
        ASSERT_EQ(again.plans.size(), found.plans.size());
        for (std::size_t c = 0; c < again.plans.size(); ++c) {
          EXPECT_EQ(again.plans[c].text, found.plans[c].with.back().text);
          EXPECT_EQ(again.plans[c].with.back().text, found.plans[c].text);
          EXPECT_EQ(again.plans[c].predicted, found.plans[c].predicted);
        }

        // Without the cells for all programs together: some program's own layout, and a bound.
        if (!limit) {
          const FoundPlans rough = find_plans_on(Mesh::line(ranks), programs, shared, known_works(programs),
                                                 {}, {.budget = 1, .table = 1});
          ASSERT_FALSE(rough.plans.empty());
          EXPECT_GE(rough.plans[0].predicted.ps, expected);
          EXPECT_LE(rough.plans[0].bound.ps, expected);
          EXPECT_GE(rough.plans[0].bound.ps, alone);
          for (const FoundPlan& other : rough.plans[0].with)
            EXPECT_EQ(layout_of(other.text), layout_of(rough.plans[0].text));
        }

        for (int p = 0; p < count; ++p) {
          const Graph& graph = *graphs[static_cast<std::size_t>(p)];
          const SplitSpace space(graph, ranks);
          const Solution whole = solve(space.problem(split_costs(costs)));
          most = std::max(most, MemoryRows(graph, space, split_costs(costs).size).of_plan(whole.choice));
        }
        memory = most - 1;
      }
    });
  }
  fmt::print("{} searches, {} of them with a compromise, {} under a limit, {} without any plan\n", compared,
             compromises, limited, impossible);
  EXPECT_GT(compromises, 0);
  EXPECT_GT(limited, 0);
}

// A transposed weight is tied by its source, and kinds of readers are tied only if all programs have them.
TEST(Together, WeightsAreTiedByWhatReadsThem) {
  const std::string table = weight("table", 6, 4);
  const auto model = [&](int rows, bool lookup, bool head) {
    std::string nodes = lookup ? "e = Gather(table, x)\n" : "e = Cast<to = 1>(f)\n";
    nodes += head ? "t = Transpose<perm = [1, 0]>(table)\n y = MatMul(e, t)\n" : "y = Relu(e)\n";
    return fmt::format("g (int64[{0}] x, float[{0},4] f) => (float[{0},{1}] y) <{2}> {{ {3} }}", rows,
                       head ? 6 : 4, table, nodes);
  };
  struct Case {
    std::vector<std::string> texts;
    std::vector<std::size_t> readers;  // of each tie
  };
  const std::vector<Case> cases = {
      {{model(2, true, true), model(3, true, true)}, {2, 2}},
      {{model(2, true, false), model(3, true, true)}, {2}},
      {{model(2, false, true), model(3, false, true), model(4, true, true)}, {3}}};
  for (const Case& one : cases) {
    with_graphs(one.texts, [&](const std::vector<const Graph*>& graphs) {
      const SharedTensors shared = shared_tensors(graphs, files(one.texts.size()));
      EXPECT_EQ(shared.count, 1);
      EXPECT_EQ(shared.bytes, 96);
      std::vector<std::size_t> readers;
      for (const SharedWeight& tie : shared.weights) readers.push_back(tie.readers.size());
      EXPECT_EQ(readers, one.readers);
    });
  }
  // One operator in one program and another one in the other: one state for both.
  const std::string gemm =
      fmt::format("g (float[2,4] x) => (float[2,6] y) <{}> {{ y = Gemm<transB = 1>(x, table) }}", table);
  with_graphs({gemm, model(3, true, false)}, [&](const std::vector<const Graph*>& graphs) {
    const SharedTensors shared = shared_tensors(graphs, files(2));
    ASSERT_EQ(shared.weights.size(), 1u);
    EXPECT_EQ(shared.weights[0].readers.size(), 2u);
  });
}

TEST(Together, WeightsOfOneNameThatDifferAreRefused) {
  const auto refused = [&](const std::string& a, const std::string& b, const char* what) {
    with_graphs({a, b}, [&](const std::vector<const Graph*>& graphs) {
      const ir::UserError error = error_of([&] { shared_tensors(graphs, files(2)); });
      EXPECT_EQ(error.code(), errors::kSplitWith);
      EXPECT_THAT(error.message(), HasSubstr(what));
    });
  };
  refused(network(2, 8), network(3, 8, 1), "'down' have different bytes here and in 1.onnx");
  refused(network(2, 8), network(3, 6), "are f32[16,8] here and f32[12,6] in 1.onnx");
  refused(network(2, 4), "g (float[2] x) => (float[2] y) { y = Relu(x) }",
          "no weight of one name with 1.onnx");
  // Scales and axes are each program's own.
  const auto scaled = [](int rows, const char* scale, const char* axis) {
    return fmt::format(
        "g (float[{0},4] x) => (float[{0},4] y) <{1}, float scale = {{{2}}}, int64[1] axes = {{{3}}}> {{ h = "
        "MatMul(x, w)\n "
        "m = Mul(h, scale)\n r = ReduceSum(m, axes)\n y = Sub(m, r) }}",
        rows, weight("w", 4, 4), scale, axis);
  };
  with_graphs({scaled(2, "0.5", "0"), scaled(3, "0.25", "1")}, [&](const std::vector<const Graph*>& graphs) {
    EXPECT_EQ(shared_tensors(graphs, files(2)).count, 1);
  });
}

}  // namespace
}  // namespace braid::frontend::sharding
