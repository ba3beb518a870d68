// Candidates of a split: the choice, plans that can be read again, and results that equal those of the plain
// model.
#include <fmt/format.h>

#include <algorithm>

#include "driver/plain_program.h"
#include "driver/split_report.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "split/machine_costs.h"
#include "split/work.h"
#include "tests/driver/split_models.h"

namespace braid {
namespace {

using test::layer;
using test::network;
using test::numbers;
using test::outputs_of;
using test::SplitModel;
using test::weight;

TEST_F(SplitModel, TpObeysAndComputesThePlainModel) {
  CompileOptions o = options(network(2, 3, 8));
  const std::vector<ir::Tensor> plain = outputs_of(lower(o), numbers({3, 8}));
  for (const int ranks : {2, 4}) {
    o.split.tensor_ranks = ranks;
    SplitReport report;
    const ir::Schedule split = lower(o, report);
    EXPECT_EQ(split.graph.ranks, ranks);
    int collectives = 0;
    for (const auto& layer : report.plan.layers) collectives += layer.collectives;
    EXPECT_GE(collectives, 2);
    const std::vector<ir::Tensor> results = outputs_of(split, numbers({3, 8}));
    ASSERT_EQ(results.size(), static_cast<std::size_t>(ranks));
    for (const ir::Tensor& result : results) EXPECT_EQ(result, plain[0]);
  }
}

// Candidates are priced with any bytes in the parts of large weights. The returned program has the true
// bytes, unless o.split.weights is false.
TEST_F(SplitModel, LargeWeightsAreCutOfTheChosenPlan) {
  CompileOptions o = options(network(2, 3, 128));  // weights of 128 KiB
  const std::vector<ir::Tensor> plain = outputs_of(lower(o), numbers({3, 128}));
  o.split.tensor_ranks = 2;
  SplitReport report, of_sizes;
  const ir::Schedule split = lower(o, report);
  for (const ir::Tensor& result : outputs_of(split, numbers({3, 128}))) EXPECT_EQ(result, plain[0]);
  o.split.weights = false;
  const ir::Schedule sizes = lower(o, of_sizes);
  EXPECT_EQ(to_string(report), to_string(of_sizes));
  ASSERT_EQ(sizes.graph.storages.size(), split.graph.storages.size());
  int cut = 0, any = 0;
  for (std::size_t k = 0; k < split.graph.storages.size(); ++k) {
    const auto &own = split.graph.storages[k].data.per_rank, &other = sizes.graph.storages[k].data.per_rank;
    ASSERT_EQ(own.size(), other.size());
    for (std::size_t r = 0; r < own.size(); ++r) EXPECT_EQ(own[r].size(), other[r].size());
    if (own.size() < 2) continue;
    ++cut;
    any += other[0].data() == other[1].data() ? 1 : 0;
    EXPECT_NE(own[0].data(), own[1].data());
  }
  EXPECT_EQ(cut, 4);
  EXPECT_EQ(any, 4);
}

TEST_F(SplitModel, DevicesMayAnswerThatOneIsFaster) {
  CompileOptions o = options(network(2, 3, 8));
  o.machine = "h100";
  o.split.devices = 4;
  SplitReport report;
  EXPECT_EQ(lower(o, report).graph.ranks, 1);
  EXPECT_EQ(report.chosen_one()->name, "not split");
  EXPECT_EQ(report.plan_text(), "plan 1\nranks 1\n");
  EXPECT_NE(to_string(report).find("one device is the fastest"), std::string::npos);
}

TEST_F(SplitModel, DevicesSplitWhatIsLarge) {
  CompileOptions o = options(network(1, 512, 256));
  o.machine = "cpu";
  o.split.devices = 2;
  SplitReport report;
  EXPECT_EQ(lower(o, report).graph.ranks, 2);
  ASSERT_GE(report.candidates.size(), 2u);
  const SplitCandidate& chosen = *report.chosen_one();
  for (const SplitCandidate& other : report.candidates) {
    ASSERT_TRUE(other.refused.empty()) << other.refused;
    EXPECT_LE(chosen.simulated, other.skipped ? other.floor : other.simulated);
  }
  EXPECT_GT(report.gap(), 0);
}

TEST(SplitReport, WhatIsLongerThanUsefulChangesNothing) {
  SplitReport report;
  EXPECT_FALSE(report.useful(8, true));
  const auto add = [&](int ranks, std::int64_t ps) {
    SplitCandidate candidate;
    candidate.ranks = ranks;
    candidate.simulated.ps = ps;
    report.candidates.push_back(candidate);
  };
  add(2, 10);
  report.chosen = 0;
  EXPECT_FALSE(report.useful(8, true));  // the next one would be the runner-up
  add(4, 20);
  EXPECT_EQ(report.useful(8, false)->ps, 20);
  EXPECT_EQ(*report.useful(8, true), analysis::Time::max());  // the first on 8 ranks
  add(8, 50);
  EXPECT_EQ(report.useful(8, false)->ps, 20);
  EXPECT_EQ(report.useful(8, true)->ps, 50);  // a faster one on 8 ranks has more axes tried
  EXPECT_EQ(report.useful(4, true)->ps, 20);
  add(8, 15);
  EXPECT_EQ(report.useful(8, true)->ps, 15);
  report.candidates.back().skipped = true;  // not simulated
  EXPECT_EQ(report.useful(8, true)->ps, 50);
}

// Without sizes a candidate that must be longer than the runner-up is not simulated; with sizes, here equal
// ones, all are.
TEST_F(SplitModel, WhatIsNotSimulatedWouldNotBeChosen) {
  int left_out = 0;
  for (const char* machine : {"cpu", "h100"}) {
    for (const int rows : {16, 256, 2048}) {
      for (const int hidden : {64, 256}) {
        CompileOptions o = options(network(2, rows, hidden));
        o.machine = machine;
        o.split.devices = 8;
        SplitReport some, all;
        const ir::Schedule chosen = lower(o, some);
        o.split.sizes.emplace_back();
        EXPECT_EQ(ir::print(lower(o, all)), ir::print(chosen));
        EXPECT_EQ(some.chosen, all.chosen);
        EXPECT_EQ(some.runner_up(), all.runner_up());
        ASSERT_EQ(some.candidates.size(), all.candidates.size());
        for (std::size_t k = 0; k < some.candidates.size(); ++k) {
          const SplitCandidate &a = some.candidates[k], &b = all.candidates[k];
          EXPECT_EQ(a.plan, b.plan);
          EXPECT_LE(b.skipped, a.skipped);
          if (!a.skipped) {
            EXPECT_EQ(a.simulated, b.simulated);
          }
          if (!a.skipped || b.skipped) continue;
          ++left_out;
          // Above what was the runner-up then, which the last one is no longer than.
          EXPECT_GT(a.floor, some.candidates[static_cast<std::size_t>(some.runner_up())].simulated);
          EXPECT_LE(a.floor, b.simulated) << machine << " " << rows << " " << hidden << " " << a.name;
          EXPECT_NE(to_string(some).find(fmt::format("over {:.3f}", a.floor.us())), std::string::npos);
        }
      }
    }
  }
  EXPECT_GT(left_out, 0);
}

TEST_F(SplitModel, DevicesTryMeshes) {
  CompileOptions o = options(network(1, 512, 256));
  o.machine = "cpu";
  o.split.devices = 4;
  SplitReport report;
  const ir::Schedule split = lower(o, report);
  const SplitCandidate& chosen = *report.chosen_one();
  EXPECT_EQ(split.graph.ranks, chosen.ranks);
  int meshes = 0;
  for (const SplitCandidate& c : report.candidates) {
    if (c.ran()) {
      EXPECT_LE(chosen.simulated, c.simulated);
    }
    if (c.name.find("dp=2, tp=2") != std::string::npos) ++meshes;
  }
  EXPECT_GE(meshes, 1) << to_string(report);
}

// 51 columns over 2 ranks: padded, or the sum over the rows of the weights is split.
TEST_F(SplitModel, PlansWithoutPaddingAreTriedToo) {
  CompileOptions o = options(
      fmt::format("g (float[4,64] x) => (float[4,51] y) <{}> {{ y = MatMul(x, w) }}", weight("w", 64, 51)));
  o.split.tensor_ranks = 2;
  SplitReport report;
  const ir::Schedule split = lower(o, report);
  const auto without = [](const SplitCandidate& c) { return c.name.ends_with(", no padding"); };
  EXPECT_EQ(std::ranges::count_if(report.candidates, without), 1) << to_string(report);
  EXPECT_GT(report.candidates.size(), 1u);
  for (const SplitCandidate& c : report.candidates) {
    if (c.ran()) {
      EXPECT_GE(c.simulated, report.chosen_one()->simulated);
    }
  }
  o.split.tensor_ranks = 3;  // 51 is 3 * 17
  lower(o, report);
  EXPECT_EQ(std::ranges::count_if(report.candidates, without), 0) << to_string(report);
}

// Rows that are looked up while the program runs are not constants, nor are tensors joined with a computed
// one.
TEST_F(SplitModel, OnlyConstantsMoveForNothing) {
  using namespace split;
  const CompileOptions o =
      options("g (int64[4] ids, float[2,8] x) => (float[4,8] rows, float[8,8] joined, float[2,6] y) <" +
              weight("table", 6, 8) +
              "> { rows = Gather(table, ids)\n joined = Concat<axis = 0>(table, x)\n"
              "t = Transpose<perm = [1, 0]>(table)\n y = MatMul(x, t) }");
  frontend::PlainModel model(o.model, o.import);
  model.with_graph([&](const Graph& graph) {
    const auto moved = [&](const char* name) { return graph.values[graph.find(name)].moved_constant; };
    EXPECT_TRUE(moved("table"));
    EXPECT_TRUE(moved("t"));
    for (const char* name : {"ids", "x", "rows", "joined", "y"}) EXPECT_FALSE(moved(name)) << name;
    const SplitCosts costs = split_costs(pass_context(o).costs);
    for (const GraphNode& node : graph.nodes) {
      if (node.compile_time) continue;
      const Strategy whole{{{}, {}}, {{}}, -1, {}};
      const Cost cost = costs.node(graph, node, whole, 1);
      EXPECT_EQ(cost == 0, node.op == "Transpose") << node.op;
    }
  });
}

TEST_F(SplitModel, KeptLinesAreInThePlan) {
  CompileOptions o = options(network(1, 64, 32));
  o.split.devices = 4;
  o.split.keep_file = folder_.write("kept.plan", "plan 1\nranks 2\n\"u0\" = S(0)\n");
  SplitReport report;
  EXPECT_EQ(lower(o, report).graph.ranks, 2);
  EXPECT_NE(report.plan_text().find("\"u0\" = S(0)\n"), std::string::npos) << report.plan_text();
  o.split.devices = 3;
  EXPECT_EQ(frontend::error_of([&] { lower(o); }).code(), 484);
  o.split.devices = 2;
  o.split.keep_file = folder_.write("kept.plan", "plan 1\nranks 2\n\"u9\" = S(0)\n");
  const ir::UserError error = frontend::error_of([&] { lower(o); });
  EXPECT_EQ(error.code(), 482);
  EXPECT_NE(error.message().find("line 3: the model has no tensor 'u9'"), std::string::npos)
      << error.message();
}

// A body or an inlined function may name another value as a copy was named: plans speak of that one.
TEST_F(SplitModel, NamesOfCopiesMayComeAgain) {
  CompileOptions o = options(
      "g (float[64, 64] x, float[64, 64] w, bool c) => (float[64, 64] y) { a = Relu(x) "
      "m = If <then_branch = t () => (float[64, 64] p) { t = Identity(a) p = Neg(t) }, "
      "else_branch = f () => (float[64, 64] r) { r = Abs(a) }> (c) "
      "t = MatMul(m, w) k = Identity(t) y = Relu(k) }");
  onnx::ModelProto called = frontend::parse_model(
      "g (float[64, 256] x, float[256, 512] w, float[512, 256] v) => (float[64, 256] y) { r = Relu(x) "
      "copy = Identity(r) q = my.F(copy, w) y = MatMul(q, v) }\n"
      "<domain: \"my\", opset_import: [\"\" : 18]> F (a, b) => (d) { t = MatMul(a, b) d = Relu(t) }",
      18);
  onnx::OperatorSetIdProto& own = *called.add_opset_import();
  own.set_domain("my");
  own.set_version(1);
  called.mutable_graph()->mutable_node(1)->set_output(
      0, "n/t");  // as the function's t is named when it is inlined
  called.mutable_graph()->mutable_node(2)->set_input(0, "n/t");
  called.mutable_graph()->mutable_node(2)->set_name("n");
  for (const std::string& model : {o.model, folder_.write("called.onnx", called)}) {
    o.model = model;
    o.split = {};
    o.split.tensor_ranks = 2;
    SplitReport report, again;
    const std::string chosen = ir::print(lower(o, report));
    o.split.tensor_ranks = 0;
    o.split.plan_file = folder_.write("chosen.plan", report.plan_text());
    EXPECT_EQ(ir::print(lower(o, again)), chosen) << report.plan_text();
  }
}

TEST_F(SplitModel, APlanIsReadAgain) {
  CompileOptions o = options(network(2, 3, 8));
  o.split.tensor_ranks = 2;
  SplitReport report, again;
  const std::string chosen = ir::print(lower(o, report));
  o.split = {};
  o.split.plan_file = folder_.write("model.plan", report.plan_text());
  EXPECT_EQ(ir::print(lower(o, again)), chosen);
  EXPECT_EQ(again.plan_text(), report.plan_text());
  EXPECT_EQ(again.candidates.at(0).simulated, report.chosen_one()->simulated);
}

TEST_F(SplitModel, AMeshIsObeyedAndItsPlanReadAgain) {
  CompileOptions o = options(network(2, 4, 8));
  const std::vector<ir::Tensor> plain = outputs_of(lower(o), numbers({4, 8}));
  for (const char* mesh : {"dp=2,tp=2", "a=2,b=2,c=2", "tp=4"}) {
    o.split = {};
    o.split.mesh = mesh;
    SplitReport report, again;
    const ir::Schedule split = lower(o, report);
    EXPECT_EQ(split.graph.ranks, mesh[0] == 'a' ? 8 : 4);
    for (const ir::Tensor& result : outputs_of(split, numbers({4, 8}))) EXPECT_EQ(result, plain[0]) << mesh;
    EXPECT_FALSE(report.plan.splits_nothing());
    o.split = {};
    o.split.plan_file = folder_.write("model.plan", report.plan_text());
    EXPECT_EQ(ir::print(lower(o, again)), ir::print(split)) << report.plan_text();
    EXPECT_EQ(again.plan_text(), report.plan_text());
  }
}

// Not every product gains by every axis: if one is better left whole, a mesh finds that by itself.
TEST_F(SplitModel, NoKeptLineIsFasterThanWhatAMeshChooses) {
  const std::string narrow = fmt::format(
      "g (float[8,128] x) => (float[8,64] y) <{}, {}> {{ m0 = MatMul(x, w0)\n s = Softmax(m0)\n "
      "m1 = MatMul(s, w1)\n r = Relu(m1)\n y = Add(r, s) }}",
      weight("w0", 128, 64), weight("w1", 64, 64));
  const std::pair<std::string, std::vector<std::string>> kModels[] = {
      {narrow, {"m0", "m1"}},
      {network(1, 8, 64), {"u0", "d0"}},
      {network(2, 64, 32), {"u0", "d0", "u1", "d1"}},
      {layer(8, 32, 4), {"q", "k", "v", "a", "u", "d"}}};
  int gained = 0;
  for (const auto& [text, products] : kModels) {
    CompileOptions o = options(text);
    o.split.mesh = "a=2,b=2";
    SplitReport chosen;
    EXPECT_EQ(lower(o, chosen).graph.ranks, 4);
    EXPECT_FALSE(chosen.plan.splits_nothing());
    const SplitCandidate& best = *chosen.chosen_one();
    if (best.name.find("products may stay whole") != std::string::npos) ++gained;
    for (const std::string& product : products) {
      o.split.keep_file =
          folder_.write("keep.txt", fmt::format("plan 1\nmesh [a=2, b=2]\n\"{}\" = R\n", product));
      SplitReport kept;
      lower(o, kept);
      EXPECT_LE(best.simulated, kept.chosen_one()->simulated) << product << '\n'
                                                              << to_string(chosen) << to_string(kept);
    }
  }
  EXPECT_GT(gained, 0);
}

// Parts of a tensor without elements begin after its storage of no bytes.
TEST_F(SplitModel, PartsWithoutElements) {
  CompileOptions o = options(
      "g (float[16,0,4] x) => (float[16,0,0] y) <" + weight("w", 4, 4) +
      "> { t = Sigmoid(x)\n a = MatMul(t, w)\n u = Transpose<perm = [0, 2, 1]>(t)\n s = MatMul(a, u)\n"
      "y = Neg(s) }");
  o.split.plan_file = folder_.write("model.plan",
                                    "plan 1\nranks 4\n\"a\" = S(2)\n\"s\" = P(sum)\n\"s\" -> \"y\"[0] = R\n"
                                    "\"u\" -> \"s\"[1] = S(1)\n\"w\" -> \"a\"[1] = S(1)\n");
  SplitReport report;
  const ir::Schedule split = lower(o, report);
  EXPECT_EQ(split.graph.ranks, 4);
  EXPECT_TRUE(ir::verify(split).empty());
}

TEST_F(SplitModel, TheSameTwice) {
  CompileOptions o = options(network(3, 16, 32));
  o.split.tensor_ranks = 4;
  SplitReport first, second;
  EXPECT_EQ(ir::print(lower(o, first)), ir::print(lower(o, second)));
  EXPECT_EQ(to_string(first), to_string(second));
}

}  // namespace
}  // namespace braid
