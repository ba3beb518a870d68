// Facts about a graph that are found once: kinds of nodes and values, moved constants.
#include "split/graph.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "frontend/sharding/node_order.h"
#include "tests/split/two_products.h"
#include "tests/support/onnx_parser.h"
#include "tests/support/random.h"

namespace braid::frontend::sharding {
namespace {

// By the names of their first outputs.
std::map<std::string, NodeKindId> kinds_of(const std::string& text) {
  std::map<std::string, NodeKindId> kinds;
  with_graph(text, {}, [&](const Graph& graph) {
    for (const GraphNode& node : graph.nodes) kinds[graph.values[node.outputs[0]].name] = node.kind;
  });
  return kinds;
}

TEST(Graph, NodesOfOneKindDifferInNamesOnly) {
  auto kinds = kinds_of(
      "g (float[4,4] x) => (float[4,4] y) { a = Relu(x)\n b = Relu(a)\n c = Relu(b)\n d = Transpose <perm = "
      "[1, 0]> (c)\n e = Transpose <perm = [0, 1]> (d)\n f = Transpose <perm = [1, 0]> (e)\n h = Add(f, f)\n "
      "i = "
      "Add(h, f)\n j = Add(i, h)\n k = Relu(j)\n l = Cast <to = 11> (k)\n m = Relu(l)\n n = Cast <to = 1> "
      "(m)\n "
      "y = Relu(n) }");
  EXPECT_EQ(kinds["b"], kinds["c"]);
  EXPECT_EQ(kinds["b"], kinds["k"]);
  EXPECT_NE(kinds["a"], kinds["b"]);  // reads what the program is given
  EXPECT_EQ(kinds["d"], kinds["f"]);
  EXPECT_NE(kinds["d"], kinds["e"]);
  EXPECT_NE(kinds["h"], kinds["i"]);  // one tensor twice
  EXPECT_EQ(kinds["i"], kinds["j"]);
  EXPECT_NE(kinds["m"], kinds["k"]);  // another type
  EXPECT_NE(kinds["l"], kinds["n"]);
}

TEST(Graph, NodesOfOtherSizesAreOfOtherKinds) {
  auto kinds = kinds_of(
      "g (float[4,6] x) => (float[4,4] y) { a = Relu(x)\n b = Transpose <perm = [1, 0]> (a)\n c = MatMul(a, "
      "b)\n "
      "d = Relu(b)\n e = Relu(c)\n f = Relu(e)\n s = Softmax(d)\n y = Add(f, e) }");
  EXPECT_NE(kinds["d"], kinds["e"]);
  EXPECT_EQ(kinds["e"], kinds["f"]);
}

// Backwards from a value, at each question.
bool is_moved(const Graph& graph, ValueId v, std::set<ValueId>& seen) {
  const GraphValue& value = graph.values[v];
  if (value.constant || !seen.insert(v).second) return true;
  if (!value.producer.valid()) return false;
  const GraphNode& node = graph.nodes[value.producer];
  if (node.work.kind != WorkKind::view && !is_moved(node.work.kind)) return false;
  for (const ValueId input : node.inputs)
    if (input.valid() && !is_moved(graph, input, seen)) return false;
  return true;
}

TEST(Graph, MovedConstantsAreWhatIsMadeOfConstantsOnly) {
  const int cases = test::random_cases(60);
  int moved = 0, others = 0;
  for (int k = 0; k < cases; ++k) {
    const std::uint64_t seed = test::first_seed() + static_cast<std::uint64_t>(k);
    std::mt19937_64 random(seed);
    std::vector<std::string> names = {"x", "w", "v"};
    std::string text =
        fmt::format("g (float[8,8] x) => (float[8,8] y) <{}, {}> {{ ", weight("w", 8, 8), weight("v", 8, 8));
    for (int n = 0; n < 12; ++n) {
      const auto any = [&] { return names[random() % names.size()]; };
      const std::string name = "t" + std::to_string(n);
      const std::string nodes[] = {"Transpose <perm = [1, 0]> (" + any() + ")", "Identity(" + any() + ")",
                                   "Relu(" + any() + ")", "Add(" + any() + ", " + any() + ")"};
      text += name + " = " + nodes[random() % 4] + "\n ";
      names.push_back(name);
    }
    std::string sum = "x";
    for (std::size_t n = 3; n < names.size(); ++n) {
      const std::string next = n + 1 == names.size() ? "y" : "s" + std::to_string(n);
      text += next + " = Add(" + sum + ", " + names[n] + ")\n ";
      sum = next;
    }
    with_graph(text + "}", {}, [&](const Graph& graph) {
      for (const ValueId v : graph.values.ids()) {
        std::set<ValueId> seen;
        EXPECT_EQ(graph.values[v].moved_constant, is_moved(graph, v, seen))
            << graph.values[v].name << ", seed " << seed;
        (graph.values[v].moved_constant ? moved : others) += 1;
      }
    });
  }
  EXPECT_GT(moved, 3 * cases);
  EXPECT_GT(others, 3 * cases);
}

// Whatever the order of the file, and whatever its names are.
TEST(NodeOrder, FollowsFromWhatTheGraphComputes) {
  const std::string text =
      "<ir_version: 8, opset_import: [\"\" : 18]> g (float[4,4] x, float[4,4] w, bool c) => (float[4,4] y, "
      "float[4,4] z) {"
      "a = MatMul(x, w) b = Relu(a) d = Neg(a) "
      "e = If <then_branch = t () => (float[4,4] p) { p = Abs(d) }, else_branch = f () => (float[4,4] q) { q "
      "= Neg(b) }> (c) "
      "y = Add(e, a) h = Sub(b, x) dead = Exp(x) z = Mul(h, a) }";
  onnx::ModelProto model;
  const onnx::Common::Status parsed = onnx::OnnxParser::Parse(model, text.c_str());
  ASSERT_TRUE(parsed.IsOK()) << parsed.ErrorMessage();
  std::mt19937 random(1);
  for (int k = 0; k < 50; ++k) {
    onnx::GraphProto graph = model.graph();
    for (int n = graph.node_size() - 1; n > 0; --n)
      graph.mutable_node()->SwapElements(n, static_cast<int>(random() % static_cast<unsigned>(n + 1)));
    order_by_outputs(graph);
    std::string order;
    for (const onnx::NodeProto& node : graph.node()) order += node.output(0) + " ";
    EXPECT_EQ(order, "a d b e y h z dead ");
  }
}

// A chain that would fill the call stack.
TEST(NodeOrder, OfDeepGraphs) {
  onnx::GraphProto graph;
  constexpr int kNodes = 300'000;
  for (int k = kNodes; k-- > 0;) {
    onnx::NodeProto& node = *graph.add_node();
    node.add_input(fmt::format("v{}", k));
    node.add_output(fmt::format("v{}", k + 1));
  }
  graph.add_output()->set_name(fmt::format("v{}", kNodes));
  order_by_outputs(graph);
  EXPECT_EQ(graph.node(0).input(0), "v0");
  EXPECT_EQ(graph.node(kNodes - 1).output(0), fmt::format("v{}", kNodes));
}

}  // namespace
}  // namespace braid::frontend::sharding
