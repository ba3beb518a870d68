// Plans of pipeline stages against all cuts and all plans.
#include "split/stages.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "frontend/sharding/configuration.h"
#include "frontend/sharding/split.h"
#include "split/machine_costs.h"
#include "tests/frontend/models.h"
#include "tests/frontend/sharding/annotated.h"
#include "tests/solver/next_choice.h"
#include "tests/split/two_products.h"
#include "tests/support/random.h"

namespace braid::frontend::sharding {
namespace {

using ::testing::HasSubstr;

std::size_t at(int k) { return static_cast<std::size_t>(k); }

// A chain: every tensor has one reader.
std::string chain(int rows, int hidden, int wide) {
  return fmt::format(
      "g (float[{3},{0}] x) => (float[{3},{0}] y) <{1}, {2}, {4}> {{ h = MatMul(x, up)\n r = Relu(h)\n d = "
      "MatMul(r, down)\n "
      "s = Softmax(d)\n y = MatMul(s, out) }}",
      hidden, weight("up", hidden, wide), weight("down", wide, hidden), rows, weight("out", hidden, hidden));
}

Cost transfer(const analysis::CostModel& costs, int ranks, int stage, std::int64_t bytes) {
  const std::array<int, 2> pair = {stage * ranks, (stage + 1) * ranks};
  analysis::CollectiveShape shape;
  shape.kind = ir::CollectiveKind::send;
  shape.bytes = bytes;
  shape.ranks = pair;
  return costs.collective(shape).time.ps;
}

// The shortest longest stage over all plans of the chain and all cuts.
Cost by_trying_all(const Graph& graph, int stages, int ranks,
                   const std::shared_ptr<const analysis::CostModel>& model) {
  const SplitSpace space(graph, ranks);
  const SplitCosts costs = split_costs(model);
  const Problem problem = space.problem(costs);
  const int nodes = count_of(graph.nodes);
  Cost best = kForbidden;
  Solution solution;
  solution.status = Status::kFeasible;
  solution.choice = solver::first_choice(problem);
  do {
    if (price(problem, solution.choice) != kForbidden) {
      const SplitChoice choice = space.described(costs, {solution});
      std::vector<Cost> own(at(nodes), 0);
      for (int k = 0; k < nodes; ++k) own[at(k)] = choice.nodes.at(at(k)).cost;
      for (const ChosenConversion& c : choice.conversions) {
        for (int k = 0; k < nodes; ++k) {
          const bool returned = c.readers.at(0).empty() && k + 1 == nodes;
          if (returned || plan_name(graph, graph.nodes[{k}]) == c.readers[0]) own[at(k)] += c.cost;
        }
      }
      const auto sent = [&](int k) {  // by a cut before node k
        const GraphValue& value = graph.values[graph.nodes[{k - 1}].outputs[0]];
        return static_cast<std::int64_t>(
            local_bytes(value, costs, parts_of(choice.plan.of_value(value.name), space.mesh())));
      };
      const auto extend = [&](const auto& self, int stage, int begin, Cost longest) -> void {
        if (longest >= best) return;
        if (stage == stages) {
          if (begin == nodes) best = longest;
          return;
        }
        Cost compute = 0;
        for (int end = begin + 1; end <= nodes; ++end) {
          compute += own[at(end - 1)];
          const bool last = stage + 1 == stages;
          if (last && end < nodes) continue;
          if (!last && end == nodes) break;
          const Cost cost = compute + (last ? 0 : transfer(*model, ranks, stage, sent(end)));
          self(self, stage + 1, end, std::max(longest, cost));
        }
      };
      extend(extend, 0, 0, 0);
    }
  } while (solver::next_choice(problem, solution.choice));
  return best;
}

TEST(Stages, HavePlansOfTheirOwn) {
  int compared = 0, shorter = 0, best = 0;
  std::mt19937_64 random(static_cast<std::uint64_t>(test::first_seed(20261127)));
  for (int k = 0; k < test::random_cases(30); ++k) {
    const auto costs = machine(random() % 2 == 0 ? "cpu" : "h100");
    const int hidden = 8 << random() % 3, wide = 8 << random() % 5;
    SCOPED_TRACE(k);
    with_graph(chain(1 << random() % 12, hidden, wide), [&](const Graph& graph) {
      for (const int stages : {2, 3}) {
        const int ranks = random() % 2 == 0 ? 2 : 4;
        const FoundStages found = find_stages(graph, stages, ranks, costs, {});
        ASSERT_EQ(found.each.size(), at(stages)) << found.excluded;
        Cost longest = 0;
        int nodes = 0;
        for (const FoundStage& stage : found.each) {
          longest = std::max(longest, stage.compute.ps + stage.transfer.ps);
          nodes += stage.nodes;
          EXPECT_LE(stage.split, stage.nodes);
        }
        EXPECT_EQ(found.longest.ps, longest);
        EXPECT_EQ(nodes, 5);
        const Cost least = by_trying_all(graph, stages, ranks, costs);
        EXPECT_LE(least, found.longest.ps);
        EXPECT_LE(found.longest, found.shared);
        ++compared;
        shorter += found.longest < found.shared ? 1 : 0;
        best += found.longest.ps == least ? 1 : 0;

        // Half of the memory that some stage takes: kept, or there are none.
        SearchOptions limited;
        std::int64_t most = 0;
        for (const FoundStage& stage : found.each) most = std::max(most, stage.bytes);
        limited.memory = most * 3 / 4;
        const FoundStages less = find_stages(graph, stages, ranks, costs, limited);
        EXPECT_NE(less.each.empty(), less.excluded.empty());
        for (const FoundStage& stage : less.each) EXPECT_LE(stage.bytes, *limited.memory);
        EXPECT_TRUE(less.each.empty() || less.longest.ps >= least);
      }
    });
  }
  fmt::print("{} searches: {} shorter than with one plan, {} the shortest of all\n", compared, shorter, best);
  EXPECT_GT(shorter, 0);
  EXPECT_GT(best, compared / 2);
}

TEST(Stages, KeepLines) {
  const auto costs = machine("cpu");
  with_graph(chain(64, 32, 64), [&](const Graph& graph) {
    const auto stages = [&](const std::string& lines, int ranks = 2) {
      SearchOptions options;
      options.keep = "plan 1\nranks 2\n" + lines;
      options.keep_file = "kept.plan";
      return find_stages(graph, 2, ranks, costs, options);
    };
    const auto all = [](const FoundStages& found) {
      std::string text;
      for (const FoundStage& stage : found.each) text += stage.plan;
      return text;
    };
    for (const char* state : {"S(0)", "S(1)", "P(sum)"}) {
      const FoundStages found = stages(fmt::format("\"d\" = {}\n", state));
      EXPECT_EQ(found.each.size(), 2u);
      EXPECT_THAT(all(found), HasSubstr(fmt::format("\"d\" = {}\n", state)));
    }
    for (const char* state : {"R", "S(0)"}) {
      const FoundStages found = stages(fmt::format("\"h\" = {}\n\"s\" -> \"y\" = R\n", state));
      const std::string line = fmt::format("\"h\" = {}\n", state);
      if (std::string(state) == "R") {
        EXPECT_EQ(all(found).find("\"h\" = "), std::string::npos);
      } else {
        EXPECT_THAT(all(found), HasSubstr(line));
      }
      EXPECT_EQ(all(found).find("\"s\" -> \"y\" = S"), std::string::npos);
    }
    EXPECT_THAT(stages("\"d\" = R\n", 4).excluded, HasSubstr("the lines that are kept are for 2 ranks"));
    const ir::UserError error = error_of([&] { stages("\"d\" = S(7)\n"); });
    EXPECT_EQ(error.code(), 482);
    EXPECT_THAT(error.message(), HasSubstr("line 3"));
  });
}

TEST(Stages, ObeyAnnotations) {
  const std::string split =
      "sharding_spec { tensor_name: 'd' device: 0 device: 1 sharded_dim { axis: 0 simple_sharding { "
      "num_shards: 2 } } }";
  const onnx::ModelProto model = annotated_model(
      "g (float[8,4] x, float[4,6] up, float[6,4] down) => (float[8,4] y) { h = MatMul(x, up)\n d = "
      "MatMul(h, down)\n y = "
      "Softmax(d) }",
      {{"d", split}}, "configuration { name: 'c' num_devices: 2 }");
  const TemporaryFolder folder;
  const std::string path = folder.write("model.onnx", model);
  SearchOptions options;
  options.annotated =
      annotations_of(std::make_shared<const DeviceConfiguration>(*device_configuration(path, "c")));
  auto request = std::make_shared<SplitRequest>();
  int searched = 0;
  request->choose = [&](const Graph& graph, const Mesh& mesh) {
    ++searched;
    const FoundStages found = find_stages(graph, 2, 2, machine("h100"), options);
    std::string plans;
    for (const FoundStage& stage : found.each) plans += stage.plan;
    EXPECT_THAT(plans, HasSubstr("\"d\" = S(0)\n")) << found.excluded;
    EXPECT_THAT(find_stages(graph, 2, 4, machine("h100"), options).excluded,
                HasSubstr("the annotations of the model are for 2 ranks"));
    EXPECT_LE(find_stages(graph, 2, 2, machine("h100"), {}).longest, found.longest);
    return MeshPlan(mesh);
  };
  ImportOptions import;
  import.ranks = 2;
  import.split = request;
  import_model(path, import);
  EXPECT_EQ(searched, 1);
}

}  // namespace
}  // namespace braid::frontend::sharding
