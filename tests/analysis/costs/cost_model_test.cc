#include "analysis/costs/cost_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ir/error.h"
#include "ir/extern_registry.h"
#include "ir/parser.h"
#include "tests/support/build.h"

namespace braid::analysis {
namespace {

using test::Builder;

// launch 1 us, memory 1 GB/s = 1 byte per ns, 1 TFLOPS = 1000 flops per ns, everything at full efficiency.
Machine round_machine() {
  Machine m = load_machine("h100");
  m.memory_gb_s = 1;
  m.launch_us = 1;
  m.matrix_tflops.fill(1);
  m.vector_tflops.fill(1e-3);  // 1 flop per ns
  for (ClassEfficiency& c : m.classes) c = {1, 1, 1000};
  m.classes[static_cast<std::size_t>(KernelClass::gemm)].slowdown = 1500;
  m.classes[static_cast<std::size_t>(KernelClass::reduction)].slowdown = 2000;
  return m;
}

double us(const CostModel& model, const Builder& b, std::vector<ir::OpId> ops) {
  return model.kernel(b.graph, ops).time.us();
}

TEST(KernelCosts, AnElementwiseKernelCostsItsBytesAndTheLaunch) {
  Builder b;
  const ir::BufferId x = b.input("x", {1000}), y = b.input("y", {1000}), out = b.result("out", {1000});
  const ir::OpId op = b.add("add", out, {x, y});
  EXPECT_DOUBLE_EQ(us(CostModel(round_machine()), b, {op}), 1 + 12);
}

TEST(KernelCosts, ABroadcastOperandIsReadOnce) {
  Builder b;
  const ir::BufferId x = b.input("x", {100, 10}), bias = b.input("bias", {100}),
                     out = b.result("out", {100, 10});
  const ir::OpId op = b.add("add", out, {x, bias});
  EXPECT_DOUBLE_EQ(us(CostModel(round_machine()), b, {op}), 1 + (4000 + 400 + 4000) * 1e-3);
}

TEST(KernelCosts, AProductCosts2MNKFlopsOrItsBytes) {
  Builder b;
  const ir::BufferId big_a = b.input("a", {500, 500}), big_b = b.input("b", {500, 500}),
                     out = b.result("out", {500, 500});
  const ir::OpId op = b.gemm("mm", out, big_a, big_b);
  const KernelCost cost = CostModel(round_machine()).kernel(b.graph, std::vector{op});
  EXPECT_DOUBLE_EQ(cost.time.us(), 1 + std::max(2 * 500.0 * 500 * 500 / 1e6, 3 * 500 * 500 * 4 / 1e3));
  EXPECT_EQ(cost.slowdown, 1500);
}

TEST(KernelCosts, AnExternKernelCostsTheFlopsThatItIsRegisteredWithOrItsBytes) {
  const auto flops = [](const ir::ExternShapes& shapes) {
    return 2e4 * static_cast<double>(shapes.writes[0][0]);
  };
  ir::register_extern_kernel(
      {.symbol = "priced",
       .interpret = [](ir::ExternCall&) {},
       .refuses = [](const ir::Graph&, const ir::ExternKernel&) { return std::string(); },
       .kernel_class = KernelClass::other,
       .flops = flops});
  for (const auto& [callee, expected] : {std::pair("priced", 1 + 20.0), std::pair("unpriced", 1 + 8.0)}) {
    Builder b;
    const ir::BufferId x = b.input("x", {1000}), out = b.result("out", {1000});
    ir::ExternKernel kernel{.callee = callee, .reads = {whole(b.graph, x)}, .writes = {whole(b.graph, out)}};
    const ir::OpId op = b.graph.add_op({.name = "call", .kernel = kernel, .outputs = {out}});
    EXPECT_DOUBLE_EQ(us(CostModel(round_machine()), b, {op}), expected) << callee;
  }
}

TEST(KernelCosts, WhatLivesOnlyInsideOfAFusedNodeCostsNoTraffic) {
  Builder b;
  const ir::BufferId x = b.input("x", {1000}), t = b.activation("t", {1000}), out = b.result("out", {1000});
  const ir::OpId first = b.add("first", t, {x, x}), second = b.add("second", out, {t, x});
  const CostModel model(round_machine());
  EXPECT_DOUBLE_EQ(us(model, b, {first}), 1 + 8);
  EXPECT_DOUBLE_EQ(us(model, b, {second}), 1 + 12);
  EXPECT_DOUBLE_EQ(us(model, b, {first, second}), 1 + (4 + 4 + 4));  // x is read by both
}

TEST(KernelCosts, AFusedNodeWritesWhatOthersRead) {
  Builder b;
  const ir::BufferId x = b.input("x", {1000}), t = b.activation("t", {1000}), out = b.result("out", {1000}),
                     late = b.result("late", {1000});
  const ir::OpId first = b.add("first", t, {x}), second = b.add("second", out, {t});
  b.add("third", late, {t});
  EXPECT_DOUBLE_EQ(us(CostModel(round_machine()), b, {first, second}), 1 + (4 + 8 + 4));
}

TEST(KernelCosts, AFusedNodeIsNeverDearerThanItsMembers) {
  Machine m = load_machine("h100");
  m.classes[static_cast<std::size_t>(KernelClass::reduction)].memory = 0.1;
  Builder b;
  const ir::BufferId x = b.input("x", {1 << 20}), y = b.input("y", {100, 10});
  const ir::OpId large = b.add("large", b.result("out", {1 << 20}), {x});
  const ir::OpId small = b.reduce("small", b.result("sum", {100}), y);
  const CostModel model(m);
  EXPECT_LE(us(model, b, {large, small}), us(model, b, {large}) + us(model, b, {small}));
}

TEST(KernelCosts, AReductionSlowsDownAsItsClassSays) {
  Builder b;
  const ir::BufferId x = b.input("x", {100, 10}), out = b.result("out", {100});
  const ir::OpId op = b.reduce("sum", out, x);
  const KernelCost cost = CostModel(round_machine()).kernel(b.graph, std::vector{op});
  EXPECT_DOUBLE_EQ(cost.time.us(), 1 + 4.4);
  EXPECT_EQ(cost.slowdown, 2000);
}

TEST(KernelCosts, AKernelWithoutABodyHasTheClassThatItDeclares) {
  const CostModel model(load_machine("h100"));
  const auto slowdown = [&](const std::string& callee, std::optional<ir::Cost> cost) {
    Builder b;
    const ir::BufferId out = b.result("out", {4});
    const ir::OpId op = b.emit(
        {"k", ir::ExternKernel{.callee = callee, .writes = {ir::whole(b.graph, out)}}, {out}, {}, cost});
    return model.kernel(b.graph, std::vector{op}).slowdown;
  };
  const auto of_class = [&](KernelClass c) { return model.machine()[c].slowdown; };
  const auto declared = [](KernelClass c) { return ir::Cost{.kernel_class = c}; };
  EXPECT_EQ(slowdown("mystery", declared(KernelClass::gemm)), of_class(KernelClass::gemm));
  EXPECT_EQ(slowdown("mystery", declared(KernelClass::attention)), of_class(KernelClass::attention));
  EXPECT_EQ(slowdown("mystery", std::nullopt), of_class(KernelClass::other));
  // Nothing is read off the name.
  EXPECT_EQ(slowdown("gemm_norm_copy", std::nullopt), of_class(KernelClass::other));
  // As it is registered (codegen/kernels/top_k.cc), unless the operation says otherwise.
  EXPECT_EQ(slowdown("top_k", std::nullopt), of_class(KernelClass::reduction));
  EXPECT_EQ(slowdown("top_k", declared(KernelClass::gemm)), of_class(KernelClass::gemm));
}

TEST(KernelCosts, ARegionCostsItsOperationsInARowPerTripAndABranchItsDearerSide) {
  const ir::Schedule s = ir::parse_schedule(R"(graph control

input %x: f32[4]
input %flag: bool[]

%y: f32[4] = branch (%flag, %x) {
  %a: f32[4] = call (%x) {
    %b: f32[4] = pointwise cost(ns 10) {
      %0 = load %x
      store %0
    }
    %c: f32[4] = pointwise cost(ns 20) {
      %0 = load %b
      store %0
    }
    yield %c
  }
  yield %a
} else {
  yield %x
}
%y.1 mutates %y = repeat 3 (%y) {
  %y.2 mutates %y = pointwise cost(ns 5) {
    %0 = load %y
    store %0
  }
  yield %y.2
}

output %y.1
)");
  const CostModel model(round_machine());
  const KernelCosts costs(model, s.graph);
  ASSERT_EQ(s.nodes.size(), 2u);
  EXPECT_EQ(costs(s.nodes[0]).time, Time::from_ns(30));
  EXPECT_EQ(costs(s.nodes[1]).time, Time::from_ns(15));
}

TEST(KernelCosts, FunctionBeforeFileBeforeOperationBeforeMachine) {
  Builder b;
  const ir::BufferId x = b.input("x", {1000}), out = b.result("out", {1000});
  const ir::OpId op = b.add("add", out, {x});
  EXPECT_DOUBLE_EQ(us(CostModel(round_machine()), b, {op}), 9);
  b.graph[op].cost = ir::Cost{.flops = 5000, .bytes = 100};  // vectors: 1 flop per ns
  EXPECT_DOUBLE_EQ(us(CostModel(round_machine()), b, {op}), 1 + 5);
  b.graph[op].cost->ns = 700;
  EXPECT_DOUBLE_EQ(us(CostModel(round_machine()), b, {op}), 0.7);
  const std::string path = testing::TempDir() + "cost_model_test_" + std::to_string(::getpid()) + ".json";
  std::ofstream(path) << R"({"version": 1, "ns": {"add": 600}})";
  CostOptions options{.cost_file = path};
  EXPECT_DOUBLE_EQ(us(CostModel(round_machine(), options), b, {op}), 0.6);
  options.function = [](const ir::Graph& g, ir::OpId id) {
    return g[id].name == "add" ? std::optional(500.0) : std::nullopt;
  };
  EXPECT_DOUBLE_EQ(us(CostModel(round_machine(), options), b, {op}), 0.5);
  std::filesystem::remove(path);
}

TEST(KernelCosts, ATimeBelowZeroIsBR0555) {
  Builder b;
  const ir::OpId op = b.add("add", b.result("out", {4}), {b.input("x", {4})});
  const CostModel model(round_machine(),
                        {.function = [](const ir::Graph&, ir::OpId) { return std::optional(-1.0); }});
  try {
    model.kernel(b.graph, std::vector{op});
    FAIL();
  } catch (const ir::UserError& e) {
    EXPECT_EQ(e.code(), 555);
    EXPECT_EQ(e.location().node, "add");
  }
}

TEST(KernelCosts, DimensionsCountAtTheirUpperBoundOrTheChosenValue) {
  Builder b;
  const ir::Expr n = b.graph.add_dim("n", {1, 1000});
  const ir::OpId op = b.add("add", b.result("out", {n}), {b.input("x", {n})});
  EXPECT_DOUBLE_EQ(us(CostModel(round_machine()), b, {op}), 1 + 8);
  EXPECT_DOUBLE_EQ(us(CostModel(round_machine(), {.dims = {{"n", 10}}}), b, {op}), 1 + 0.08);
}

TEST(KernelCosts, ASizeWithoutUpperBoundIsBR0552) {
  Builder b;
  const ir::Expr n = b.graph.add_dim("n", {1, ir::kUnbounded});
  const ir::OpId op = b.add("add", b.result("out", {n}), {b.input("x", {n})});
  try {
    CostModel(round_machine()).kernel(b.graph, std::vector{op});
    FAIL();
  } catch (const ir::UserError& e) {
    EXPECT_EQ(e.code(), 552);
  }
}

TEST(CollectiveCosts, AnExplicitTimeSaysNothingAboutOtherSizes) {
  Builder b;
  const ir::GroupId group = b.graph.add_group("all", {0, 1});
  b.graph.ranks = 2;
  const ir::BufferId x = b.activation("x", {1024});
  b.add("fill", x, {});
  b.all_reduce("ar", x, group);
  ir::OpId start;
  for (std::size_t k = 0; k < b.graph.ops.size(); ++k) {
    if (b.graph.ops[k].as<ir::CollectiveKernel>()) start = ir::OpId{static_cast<std::int32_t>(k)};
  }
  const CostModel model(load_machine("h100"));
  const CollectiveCost by_size = model.collective(b.graph, start);
  EXPECT_TRUE(by_size.priced_by_size);
  EXPECT_EQ(by_size.fabric, 0);
  EXPECT_GT(by_size.time, by_size.latency);
  EXPECT_GE(by_size.latency, Time{});
  EXPECT_EQ(model.shape(b.graph, start).bytes, 4096);
  EXPECT_EQ(model.kernel(b.graph, std::vector{start}).time, Time{});
  b.graph[start].cost = ir::Cost{.ns = 1234};
  const CollectiveCost explicit_cost = model.collective(b.graph, start);
  EXPECT_FALSE(explicit_cost.priced_by_size);
  EXPECT_EQ(explicit_cost.time, Time::from_ns(1234));
  EXPECT_EQ(explicit_cost.floor, explicit_cost.time);
}

// A mesh of 2 nodes and 8 ranks on each: parts along the nodes have one rank per node.
TEST(CollectiveCosts, PartsShareTheNetworkCardsOfANode) {
  const ir::Mesh mesh = {{"dp", 2}, {"tp", 8}};
  const auto of = [&](const ir::Parts& parts, int nics, ir::CollectiveKind kind) {
    Machine m = load_machine("h100");
    m.collectives.network->nics = nics;
    const SlowestPart part = slowest_part(m, parts);
    return CostModel(m).collective(
        CollectiveShape{.kind = kind, .bytes = 1 << 30, .ranks = *part.ranks, .siblings = part.siblings});
  };
  const ir::Parts across = parts_along(mesh, std::vector{0}), within = parts_along(mesh, std::vector{1});
  const ir::Parts alone = {across[0]};
  for (const ir::CollectiveKind kind :
       {ir::CollectiveKind::all_reduce, ir::CollectiveKind::all_gather, ir::CollectiveKind::all_to_all}) {
    const CollectiveCost eight_cards = of(across, 8, kind), one_card = of(across, 1, kind),
                         one_part = of(alone, 1, kind);
    EXPECT_EQ(eight_cards.time, one_part.time);  // a card for each part
    EXPECT_NEAR(one_card.time.us() / one_part.time.us(), 8, 0.2);
    EXPECT_NEAR(one_card.floor.us() / one_part.floor.us(), 8, 0.2);
    EXPECT_EQ(of(within, 1, kind).time, of(within, 8, kind).time);  // the network is not used
  }
}

TEST(CostModels, OneObjectPerMachine) {
  EXPECT_EQ(cost_model_for("h200"), cost_model_for("h200"));
  EXPECT_EQ(cost_model_for("")->machine().name, kDefaultMachine);
  EXPECT_THROW(cost_model_for("abacus"), ir::UserError);
  EXPECT_THROW(cost_model_for("abacus"), ir::UserError);
}

// The segment is one symmetric window, wherever in it a result lands; peers must be able to read the inputs.
TEST(CollectiveCosts, SymmetricKernelsNeedInputsThatPeersReadAndResultsInTheSegment) {
  const auto algorithm = [](const char* input) {
    const ir::Schedule s =
        ir::parse_schedule(fmt::format(R"(graph main  ranks 8  group @all = [0, 1, 2, 3, 4, 5, 6, 7]
input %x: f32[4096]
%c: f32[4096] {} = pointwise {{ %0 = load %x  store %0 }}
%r: f32[4096] comm(registered, @all) = all_reduce sum @all (%c) as ar
%r.1 mutates %r = wait ar
release ar
output %r.1
)",
                                       input));
    for (const ir::OpId op : ir::execution_order(s)) {
      if (s.graph[op].as<ir::CollectiveKernel>() != nullptr)
        return CostModel(load_machine("h100")).collective(s.graph, op).algorithm;
    }
    return std::string();
  };
  EXPECT_EQ(algorithm("comm(symmetric, @all)"), "symmetric one-shot");
  EXPECT_EQ(algorithm("comm(registered, @all)").find("symmetric"), std::string::npos);
  EXPECT_EQ(algorithm("").find("symmetric"), std::string::npos);
}

}  // namespace
}  // namespace braid::analysis
