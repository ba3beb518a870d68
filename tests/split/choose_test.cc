// The choice of states against figures that can be computed on paper.
#include <fmt/format.h>

#include <array>
#include <random>
#include <set>

#include "frontend/sharding/split.h"
#include "split/choose_split.h"
#include "split/machine_costs.h"
#include "tests/frontend/models.h"
#include "tests/frontend/sharding/chosen.h"
#include "tests/split/two_products.h"

namespace braid::frontend::sharding {
namespace {

bool is_product(const GraphNode& node) { return node.op == "MatMul"; }

// An all-reduce of n bytes on r ranks costs 1 + 2 (r-1)/r n, a gather or a scatter half of the bytes' part.
Cost ring(const ConversionStep& step, int ranks) {
  switch (step.kind) {
    case StepKind::all_reduce:
      return 1 + 2 * (ranks - 1) * step.bytes / ranks;
    case StepKind::all_gather:
      return 1 + (ranks - 1) * step.bytes;
    case StepKind::reduce_scatter:
      return 1 + (ranks - 1) * step.bytes / ranks;
    case StepKind::all_to_all:
      return 1 + (ranks - 1) * step.bytes / ranks;
    default:
      return 0;
  }
}

// Communication counts, and every product with weights must have these split.
SplitCosts split_weights() {
  SplitCosts costs;
  costs.size = [](const ir::Expr& size) { return ir::bounds(size).max; };
  costs.step = ring;
  costs.node = [](const Graph& graph, const GraphNode& node, const Strategy& strategy, int) -> Cost {
    if (!is_product(node) || !graph.values[node.inputs[1]].constant) return 0;
    return strategy.inputs[1].is_split() ? 0 : kForbidden;
  };
  return costs;
}

int count(const SplitChoice& choice, StepKind kind) {
  int steps = 0;
  for (const ChosenConversion& c : choice.conversions) {
    for (const ConversionStep& step : c.steps) steps += step.kind == kind;
  }
  return steps;
}

// Layers of a transformer without norms: attention over `heads`, then two products with a Relu between them.
std::string transformer(int layers, int sequence, int hidden, int heads) {
  const int size = hidden / heads;
  std::string weights = fmt::format("int64[4] apart = {{1, {}, {}, {}}}, int64[3] together = {{1, {}, {}}}",
                                    sequence, heads, size, sequence, hidden);
  std::string nodes;
  std::string x = "x";
  for (int l = 0; l < layers; ++l) {
    for (const char* name : {"q", "k", "v", "o"})
      weights += ", " + weight(fmt::format("w{}{}", name, l), hidden, hidden);
    weights += ", " + weight(fmt::format("wu{}", l), hidden, 4 * hidden) + ", " +
               weight(fmt::format("wd{}", l), 4 * hidden, hidden);
    nodes += fmt::format(
        "q{0} = MatMul({1}, wq{0})\n k{0} = MatMul({1}, wk{0})\n v{0} = MatMul({1}, wv{0})\n"
        "q4{0} = Reshape(q{0}, apart)\n k4{0} = Reshape(k{0}, apart)\n v4{0} = Reshape(v{0}, apart)\n"
        "qt{0} = Transpose<perm = [0, 2, 1, 3]>(q4{0})\n kt{0} = Transpose<perm = [0, 2, 3, 1]>(k4{0})\n"
        "vt{0} = Transpose<perm = [0, 2, 1, 3]>(v4{0})\n"
        "s{0} = MatMul(qt{0}, kt{0})\n p{0} = Softmax<axis = -1>(s{0})\n c{0} = MatMul(p{0}, vt{0})\n"
        "ct{0} = Transpose<perm = [0, 2, 1, 3]>(c{0})\n c3{0} = Reshape(ct{0}, together)\n a{0} = "
        "MatMul(c3{0}, wo{0})\n"
        "r{0} = Add({1}, a{0})\n u{0} = MatMul(r{0}, wu{0})\n g{0} = Relu(u{0})\n d{0} = MatMul(g{0}, "
        "wd{0})\n y{0} = Add(r{0}, d{0})\n",
        l, x);
    x = fmt::format("y{}", l);
  }
  nodes += "y = Identity(" + x + ")\n";
  return fmt::format("g (float[1,{0},{1}] x) => (float[1,{0},{1}] y) <{2}> {{\n{3}}}", sequence, hidden,
                     weights, nodes);
}

// Two products with all weights split: one all-reduce of the result, with the bytes of the cheaper way.
TEST(ShardingChoose, TwoLayersTakeOneAllReduce) {
  const std::string text = fmt::format(
      "g (float[6,8] x) => (float[6,8] y) <{}, {}> {{ h = MatMul(x, w1)\n r = Relu(h)\n y = MatMul(r, w2) }}",
      weight("w1", 8, 16), weight("w2", 16, 8));
  with_graph(text, [](const Graph& graph) {
    const SplitChoice choice = SplitSpace(graph, 4).choose(split_weights());
    EXPECT_EQ(choice.solution.status, Status::kOptimal);
    EXPECT_EQ(choice.solution.cost, 1 + 2 * 3 * (6 * 8 * 4) / 4);
    EXPECT_EQ(choice.conversions.size(), 1u);
    EXPECT_EQ(count(choice, StepKind::all_reduce), 1);
    EXPECT_EQ(choice.plan.axes[0].of_value("h"), Spec::split(1));
    EXPECT_EQ(choice.plan.axes[0].of_value("y"), Spec::pending(ir::ReduceKind::sum));
  });
}

// Megatron's split (Shoeybi et al., 2019): two all-reduces of batch * sequence * hidden per layer, whatever
// the depth. A reduce-scatter and a gather would move the same bytes with one more latency.
TEST(ShardingChoose, TransformersTakeTwoAllReducesPerLayer) {
  for (const int layers : {1, 3}) {
    with_graph(transformer(layers, 5, 8, 4), [&](const Graph& graph) {
      for (const int ranks : {2, 4}) {
        const SplitChoice choice = SplitSpace(graph, ranks).choose(split_weights());
        EXPECT_EQ(choice.solution.status, Status::kOptimal);
        EXPECT_EQ(choice.solution.cost, 2 * layers * (1 + 2 * (ranks - 1) * (5 * 8 * 4) / ranks));
        EXPECT_EQ(count(choice, StepKind::all_reduce), 2 * layers);
        EXPECT_EQ(choice.conversions.size(), static_cast<std::size_t>(2 * layers));
        EXPECT_EQ(choice.plan.axes[0].of_value("s0"), Spec::split(1));
        EXPECT_EQ(choice.plan.axes[0].of_value("c30"), Spec::split(2));
      }
    });
  }
}

// If transfers cost a latency that no splitting earns back, nothing is split; if they cost nothing,
// everything is.
TEST(ShardingChoose, SplittingMustPay) {
  with_graph(transformer(2, 5, 8, 4), [](const Graph& graph) {
    const SplitSpace space(graph, 2);
    SplitCosts costs = split_weights();
    Cost latency = 0;
    costs.step = [&](const ConversionStep& step, int) -> Cost {
      return step.kind == StepKind::slice ? 0 : latency;
    };
    costs.node = [](const Graph&, const GraphNode& node, const Strategy& strategy, int) -> Cost {
      return is_product(node) ? (strategy.letter.valid() ? 50 : 100) : 0;
    };
    // A layer has 8 products, and splitting saves 50 on each: 400 a layer. Splitting by sequence needs keys
    // and values whole, splitting by heads two all-reduces.
    latency = 1000;
    EXPECT_EQ(space.choose(costs).solution.cost, 2 * 8 * 100);
    EXPECT_TRUE(space.choose(costs).conversions.empty());
    latency = 0;
    EXPECT_EQ(space.choose(costs).solution.cost, 2 * 8 * 50);
    // The last layer's gather and two of each layer's: 2 * 8 * 50 + 4 * 150 = 1400 is less than 1600.
    latency = 150;
    EXPECT_LE(space.choose(costs).solution.cost, 1400);
    EXPECT_GT(space.choose(costs).solution.cost, 2 * 8 * 50);
  });
}

// On two axes the batch is split along one and the weights along another, or the batch along both, as its
// size allows. Both axes share the work, and each axis that splits the batch takes one gather of the whole
// output.
TEST(ShardingChoose, DataParallelComesOutOfCosts) {
  SplitCosts costs = split_weights();
  costs.node_on_mesh = [](const Graph&, const GraphNode& node, Combination axes, const Mesh& mesh) -> Cost {
    if (!is_product(node)) return 0;
    Cost work = 4000;
    for (std::size_t k = 0; k < axes.size(); ++k) work /= axes[k]->letter.valid() ? mesh.axes[k].size : 1;
    return work;
  };
  const Mesh mesh = parse_mesh("dp=2,tp=2", "mesh");
  const auto of_rows = [&](int rows, const auto& check) {
    const std::string text = fmt::format(
        "g (float[{2},8] x) => (float[{2},8] y) <{0}, {1}> {{ h = MatMul(x, w1)\n r = Relu(h)\n y = "
        "MatMul(r, w2) }}",
        weight("w1", 8, 16), weight("w2", 16, 8), rows);
    with_graph(text, [&](const Graph& graph) {
      const SplitSpace space(graph, mesh);
      const SplitChoice choice = choose_split(space, costs);
      EXPECT_TRUE(choice.joint);
      EXPECT_EQ(choice.solution.status, Status::kOptimal);
      check(choice);
    });
  };
  const Spec rows = Spec::split(0);
  of_rows(8, [&](const SplitChoice& choice) {
    EXPECT_EQ(choice.plan.of_value("h"), (MeshSpec{rows, rows}));
    EXPECT_EQ(choice.solution.cost, 2 * 1000 + (1 + 8 * 8 * 4 / 4) + (1 + 8 * 8 * 4 / 2));
  });
  // Six rows are two or three parts, not four: the other axis splits the weights, and sums over them.
  of_rows(6, [&](const SplitChoice& choice) {
    const MeshSpec h = choice.plan.of_value("h"), y = choice.plan.of_value("y");
    EXPECT_EQ(h[0] == rows, h[1] != rows) << to_string(choice.plan);
    EXPECT_EQ(y[0] == rows, y[1] == Spec::pending(ir::ReduceKind::sum)) << to_string(choice.plan);
    EXPECT_EQ(choice.solution.cost, 2 * 1000 + (1 + 6 * 8 * 4 / 2) + (1 + 6 * 8 * 4 / 2));
  });
  // Seven rows are split on one axis, with padding, and not on two.
  of_rows(7, [&](const SplitChoice& choice) {
    const MeshSpec h = choice.plan.of_value("h");
    EXPECT_NE(h[0] == rows, h[1] == rows) << to_string(choice.plan);
    EXPECT_TRUE(h[0].is_split() && h[1].is_split()) << to_string(choice.plan);
  });
  // One row cannot be split: the weights are, on both axes.
  of_rows(1, [&](const SplitChoice& choice) {
    EXPECT_EQ(choice.plan.of_value("h"), (MeshSpec{Spec::split(1), Spec::split(1)}));
    EXPECT_GT(choice.solution.cost, 2 * 1000 + 2);
  });
}

// Choosing one axis after another finds the same where the axes do not depend on each other, and never less
// than the optimum.
TEST(ShardingChoose, AxisAfterAxisIsNotBetterThanJoint) {
  with_graph(transformer(2, 8, 8, 4), [](const Graph& graph) {
    for (unsigned seed = 1; seed < 6; ++seed) {
      std::mt19937 random(seed);
      const std::array<Cost, 3> scale = {1 + static_cast<Cost>(random() % 20),
                                         1 + static_cast<Cost>(random() % 500),
                                         static_cast<Cost>(random() % 300)};
      SplitCosts costs = split_weights();
      costs.step = [scale](const ConversionStep& step, int ranks) {
        return ring(step, ranks) * scale[0] + scale[2];
      };
      costs.node_on_mesh = [scale](const Graph&, const GraphNode& node, Combination axes,
                                   const Mesh& mesh) -> Cost {
        Cost work = is_product(node) ? 64 * scale[1] : 64;
        for (std::size_t k = 0; k < axes.size(); ++k) work /= axes[k]->letter.valid() ? mesh.axes[k].size : 1;
        return work;
      };
      const Mesh mesh = parse_mesh("dp=2,tp=2", "mesh");
      const SplitSpace space(graph, mesh);
      ASSERT_FALSE(space.large());
      const SplitChoice joint = space.choose(costs),
                        turns = space.described(costs, solved_in_turn(space, costs));
      EXPECT_FALSE(turns.joint);
      EXPECT_EQ(joint.price(graph, costs), joint.solution.cost);
      EXPECT_EQ(turns.price(graph, costs), turns.solution.cost);
      EXPECT_LE(joint.solution.cost, turns.solution.cost) << seed;
    }
  });
}

// A plan costs at least what it costs in the relaxed problem, of which the least is below that of all plans.
TEST(ShardingChoose, RelaxedProblemsCostNoMore) {
  with_graph(transformer(2, 8, 8, 4), [](const Graph& graph) {
    SplitCosts costs = split_weights();
    costs.step = [](const ConversionStep& step, int ranks) { return 7 * ring(step, ranks) + 40; };
    costs.node_on_mesh = [](const Graph&, const GraphNode& node, Combination axes, const Mesh& mesh) -> Cost {
      Cost work = is_product(node) ? 6400 : 64;
      for (std::size_t k = 0; k < axes.size(); ++k) work /= axes[k]->letter.valid() ? mesh.axes[k].size : 1;
      return work;
    };
    const Mesh mesh = parse_mesh("dp=2,tp=2", "mesh");
    SpaceOptions options;
    options.cells = 0;
    const SplitSpace whole(graph, mesh), large(graph, mesh, options);
    ASSERT_FALSE(whole.large());
    ASSERT_TRUE(large.large());
    const Problem of_whole = whole.problem(costs, true), of_large = large.problem(costs, true);
    const Solution least = solve(of_large);
    ASSERT_TRUE(least.proved());
    int shared = 0;
    const auto check = [&](const SplitChoice& choice, const Assignment& own) {
      const Cost cost = choice.price(graph, costs), relaxed = price(of_large, own);
      EXPECT_LE(relaxed, cost) << to_string(choice.plan);
      EXPECT_LE(least.cost, relaxed);
      for (const ChosenConversion& c : choice.conversions) shared += c.readers.size() > 1 ? 1 : 0;
    };
    SolveOptions solving;
    solving.budget = std::int64_t{1} << 24;
    for (unsigned seed = 0; seed < 12; ++seed) {
      const SplitChoice joint = whole.choose(seed == 0 ? costs : test_costs(seed), solving);
      const Assignment& all = joint.solution.choice;
      EXPECT_LE(price(of_whole, all), joint.price(graph, costs));
      Assignment of_nodes = all;
      of_nodes.resize(large.variables().size());
      check(joint, of_nodes);
      const SplitChoice turns = choose_split(large, seed == 0 ? costs : test_costs(seed), solving);
      check(turns, turns.solution.choice);
    }
    EXPECT_GT(shared, 0);
  });
}

// Tables of one size over different states: the order of nodes does not decide which of them are left out.
TEST(ShardingChoose, WhatIsLeftOutDependsOnWhatItIs) {
  const std::string one = "a = CumSum(x, two)\n c = CumSum(a, two)\n",
                    other = "b = CumSum(z, zero)\n d = CumSum(b, zero)\n";
  const auto left_out = [](const std::string& inputs, const std::string& nodes, std::size_t cells) {
    std::set<std::string> names;
    with_graph("g (" + inputs +
                   ") => (float[4,4,4] c, float[4,4,4] d) <int64 zero = {0}, int64 two = {2}> {" + nodes +
                   "}",
               [&](const Graph& graph) {
                 SpaceOptions options;
                 options.cells = 0;
                 const SplitSpace large(graph, parse_mesh("dp=2,tp=2", "mesh"), options);
                 ASSERT_TRUE(large.large());
                 for (const Passage& p : large.passages(true, cells))
                   if (p.free) names.insert(graph.values[p.value].name);
               });
    return names;
  };
  const std::string x = "float[4,4,4] x", z = "float[4,4,4] z";
  bool partly = false;
  for (std::size_t cells = 0; cells < 300; cells += 10) {
    const std::set<std::string> names = left_out(x + ", " + z, one + other, cells);
    EXPECT_EQ(names, left_out(z + ", " + x, other + one, cells)) << cells;
    partly = partly || names.count("a") != names.count("b");
  }
  EXPECT_TRUE(partly);
}

// A tensor that several readers take in one state is converted once.
TEST(ShardingChoose, SharedConversionsArePaidOnce) {
  const std::string text = fmt::format(
      "g (float[4,8] x) => (float[4,8] a, float[4,8] b, float[4,8] c) <{}, {}> {{ h = MatMul(x, w1)\n s = "
      "MatMul(h, w2)\n"
      "a = Neg(s)\n b = Relu(s)\n c = Exp(s) }}",
      weight("w1", 8, 8), weight("w2", 8, 8));
  with_graph(text, [](const Graph& graph) {
    const SplitChoice choice = SplitSpace(graph, 2).choose(split_weights());
    EXPECT_EQ(choice.solution.cost, 1 + 2 * 1 * (4 * 8 * 4) / 2);
    ASSERT_EQ(choice.conversions.size(), 1u);
    EXPECT_EQ(choice.conversions[0].readers.size(), 3u);
  });
}

// So is what the program is given, whether one node reads it twice or several do.
TEST(ShardingChoose, SharedConversionsOfInputsArePaidOnce) {
  SplitCosts costs;
  costs.size = [](const ir::Expr& size) { return ir::bounds(size).max; };
  costs.step = [](const ConversionStep& step, int) -> Cost {
    return step.kind == StepKind::slice ? 10 : 1000;
  };
  costs.node = [](const Graph&, const GraphNode&, const Strategy& strategy, int) -> Cost {
    return strategy.inputs[0].is_split() ? 0 : kForbidden;
  };
  for (const char* nodes : {"a = Add(x, x)\n b = Neg(a)", "a = Neg(x)\n b = Relu(x)",
                            "h = Mul(x, x)\n a = Add(h, x)\n b = Add(x, h)"}) {
    with_graph(fmt::format("g (float[4,8] x) => (float[4,8] a, float[4,8] b) {{ {} }}", nodes),
               [&](const Graph& graph) {
                 const SplitChoice choice = SplitSpace(graph, 2).choose(costs);
                 EXPECT_EQ(choice.solution.cost, 10 + 2 * 1000) << nodes;
                 EXPECT_EQ(choice.price(graph, costs), choice.solution.cost) << nodes;
               });
  }
}

// A tensor is in every state that some reader takes whatever is chosen, and in two others at most.
TEST(ShardingChoose, RequiredStates) {
  using Taken = IdVector<ChoiceId, StateId>;
  const Taken one = {{1}}, always_two = {{2}, {2}, {2}}, three = {{3}}, any = {{0}, {1}, {2}},
              none = {{0}, {0}};
  const auto required = [](std::vector<States> taken, StateId from) { return required_states(taken, from); };
  using Required = std::vector<StateId>;
  EXPECT_EQ(required({}, {0}), Required{});
  EXPECT_EQ(required({&any, &none}, {0}), Required{});
  EXPECT_EQ(required({&any, &none}, {1}), (Required{{0}}));
  EXPECT_EQ(required({&three, &any, &one, &always_two, &three}, {0}), (Required{{3}, {1}, {2}}));
  EXPECT_EQ(required({&three, &any, &one, &always_two, &three}, {1}), (Required{{3}, {2}}));
}

// Three readers of a tensor take one state each, none of which is the tensor's own: three conversions.
TEST(ShardingChoose, ReadersThatAreFixedGetAllTheirStates) {
  const std::string text =
      "g (float[4,8,8] x) => (float[4,8,8] a, float[4,8,8] b, float[4,8,8] c, float[4,8,8] d) { h = Relu(x)\n"
      "a = Neg(h)\n b = Exp(h)\n c = Sin(h)\n d = Cos(h) }";
  with_graph(text, [](const Graph& graph) {
    const std::map<std::string, Spec> fixed = {{"Relu", Spec::replicated()},
                                               {"Neg", Spec::split(0)},
                                               {"Exp", Spec::split(1)},
                                               {"Sin", Spec::split(2)},
                                               {"Cos", Spec::replicated()}};
    SpaceOptions options;
    options.keeps = [&](NodeId node, Combination axes) {
      return axes[0]->outputs[0] == fixed.at(graph.nodes[node].op);
    };
    const SplitSpace space(graph, Mesh::line(2), options);
    EXPECT_TRUE(space.unmet().empty());
    const SplitChoice choice = space.choose(split_weights());
    ASSERT_EQ(choice.solution.status, Status::kOptimal);
    std::vector<std::string> of_h;
    for (const ChosenConversion& c : choice.conversions)
      if (graph.values[c.value].name == "h") of_h.push_back(to_string(c.to[0]));
    EXPECT_EQ(of_h, (std::vector<std::string>{"S(0)", "S(1)", "S(2)"}));
  });
}

// Names and the order of independent nodes have no influence on the cost.
TEST(ShardingChoose, RenamingAndIdentitiesChangeNothing) {
  Cost first = 0;
  with_graph(transformer(1, 5, 8, 4),
             [&](const Graph& graph) { first = SplitSpace(graph, 2).choose(split_weights()).solution.cost; });
  std::string renamed = transformer(1, 5, 8, 4);
  for (const char* name : {"wq0", "q40", "r0"}) {
    const std::string other = std::string("zz_") + name + "_renamed";
    for (std::size_t at = renamed.find(name); at != std::string::npos;
         at = renamed.find(name, at + other.size()))
      renamed.replace(at, std::string(name).size(), other);
  }
  with_graph(renamed, [&](const Graph& graph) {
    EXPECT_EQ(SplitSpace(graph, 2).choose(split_weights()).solution.cost, first);
  });
  std::string longer = transformer(1, 5, 8, 4);
  longer.replace(longer.find("g0 = Relu(u0)"), 13, "i0 = Identity(u0)\n g0 = Relu(i0)");
  with_graph(longer, [&](const Graph& graph) {
    EXPECT_EQ(SplitSpace(graph, 2).choose(split_weights()).solution.cost, first);
  });
}

// Decode of one token: reading weights takes their bytes, so splitting a block of products over t ranks saves
// (1 - 1/t) of them and costs one all-reduce, that is its latency. Attention has 4 h^2 weights, the two
// products after it 8 h^2.
TEST(ShardingChoose, BreakEvenOfDecode) {
  with_graph(transformer(2, 1, 8, 4), [](const Graph& graph) {
    const SplitSpace space(graph, 4);
    const Cost attention = 4 * 8 * 8 * 4, products = 8 * 8 * 8 * 4;
    for (const Cost latency : {300, 767, 769, 1535, 1537, 2000}) {
      SplitCosts costs = split_weights();
      costs.step = [&](const ConversionStep& step, int) -> Cost {
        return step.kind == StepKind::slice ? 0 : latency;
      };
      costs.node = [](const Graph& graph, const GraphNode& node, const Strategy& strategy,
                      int ranks) -> Cost {
        if (!is_product(node)) return 0;
        const GraphValue& value = graph.values[node.inputs[1]];
        if (!value.constant) return 0;
        Cost bytes = 4;
        for (const ir::Expr& size : value.sizes) bytes *= ir::bounds(size).max;
        return strategy.inputs[1].is_split() ? bytes / ranks : bytes;
      };
      const SplitChoice choice = space.choose(costs);
      EXPECT_EQ(choice.solution.status, Status::kOptimal);
      EXPECT_EQ(choice.solution.cost, 2 * (std::min(attention, attention / 4 + latency) +
                                           std::min(products, products / 4 + latency)));
      EXPECT_EQ(choice.conversions.size(), latency < 768 ? 4u : latency < 1536 ? 2u : 0u) << latency;
    }
  });
}

}  // namespace
}  // namespace braid::frontend::sharding
