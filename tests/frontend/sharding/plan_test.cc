// Plans as text, plans that do not fit, and what renaming, reordering and Identity change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "ir/printer.h"
#include "tests/frontend/models.h"
#include "tests/frontend/sharding/chosen.h"
#include "tests/frontend/sharding/proof.h"
#include "tests/paths.h"

namespace braid::frontend::sharding {
namespace {

using ::testing::HasSubstr;

TEST(SpecText, RoundTrips) {
  for (const char* text :
       {"R", "S(0)", "S(12)", "S(2:768+768+768)", "P(sum)", "P(max)", "P(min)", "P(prod)"}) {
    const std::optional<Spec> spec = parse_spec(text);
    ASSERT_TRUE(spec.has_value()) << text;
    EXPECT_EQ(to_string(*spec), text);
  }
  for (const char* text : {"", "r", "S", "S()", "S(-1)", "S(1:)", "S(1:4)", "S(1:0+4)", "S(1:4+)", "P(avg)",
                           "P()", "S(1) ", "S(99999)"})
    EXPECT_FALSE(parse_spec(text).has_value()) << text;
}

TEST(SpecText, OrderOfBlocks) {
  EXPECT_EQ(order_of({}, 4, 2), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(order_of({4, 2}, 6, 2), (std::vector<std::int64_t>{0, 1, 4, 2, 3, 5}));
}

TEST(PlanText, RoundTrips) {
  Plan plan;
  plan.ranks = 3;
  plan.values["a \"quoted\" \\ name\nin two lines"] = Spec::split(1, {3, 6});
  plan.values["x"] = Spec::pending(ir::ReduceKind::max);
  plan.readers[{"x", {"y", -1}}] = Spec::replicated();
  plan.readers[{"w", {"y", 1}}] = Spec::split(0);
  plan.readers[{"x", {"", -1}}] = Spec::split(2);
  EXPECT_EQ(parse_plan(to_string(plan), "plan"), plan);
  EXPECT_EQ(to_string(parse_plan(to_string(plan), "plan")), to_string(plan));
}

TEST(PlanText, ErrorsNameTheLine) {
  const auto message = [](const std::string& text) {
    const ir::UserError error = error_of([&] { parse_plan(text, "file"); });
    EXPECT_EQ(error.code(), errors::kPlanSyntax);
    return std::string(error.what());
  };
  EXPECT_THAT(message(""), HasSubstr("line 0"));
  EXPECT_THAT(message("plan 2\n"), HasSubstr("line 1"));
  EXPECT_THAT(message("plan 1\nranks 0\n"), HasSubstr("line 2"));
  EXPECT_THAT(message("plan 1\nranks 2\n\nx = R\n"), HasSubstr("line 4"));
  EXPECT_THAT(message("plan 1\nranks 2\n\"x\" = Q\n"), HasSubstr("'Q' is no state"));
  EXPECT_THAT(message("plan 1\nranks 2\n\"x\" = R R\n"), HasSubstr("more than one statement"));
  EXPECT_THAT(message("plan 1\nranks 2\n\"x\" = R\n# comment\n\"x\" = S(0)\n"),
              HasSubstr("line 5: 'x' has two lines"));
  EXPECT_THAT(message("plan 1\nranks 2\n\"x -> \"y\" = R\n"), HasSubstr("line 3"));
}

constexpr const char* kMlp =
    "g (float[4, 8] x, float[8, 12] w, float[12, 8] v, float[8] b) => (float[4, 8] y) "
    "{ h = MatMul(x, w) r = Relu(h) p = MatMul(r, v) y = Add(p, b) }";

ir::Schedule with_plan(const std::string& graph, const std::string& lines, int ranks = 2) {
  auto request = std::make_shared<SplitRequest>();
  request->plan = "plan 1\nranks 2\n" + lines;
  request->plan_file = "the.plan";
  ImportOptions options;
  options.ranks = ranks;
  options.split = request;
  return import_text(graph, options);
}

std::string mismatch(const std::string& lines, int ranks = 2) {
  const ir::UserError error = error_of([&] { with_plan(kMlp, lines, ranks); });
  EXPECT_EQ(error.code(), errors::kPlanMismatch) << error.what();
  return error.what();
}

TEST(Plans, ThatDoNotFitNameLineAndTensor) {
  EXPECT_THAT(mismatch("\"q\" = R\n"), HasSubstr("line 3 of the plan: the model has no value 'q'"));
  EXPECT_THAT(mismatch("\n\"x\" = S(2)\n"),
              HasSubstr("line 4 of the plan: 'x' cannot be S(2): it has 2 dimensions"));
  EXPECT_THAT(mismatch("\"h\" = S(1:5+7)\n"), HasSubstr("a block of 5 cannot be cut into 2 parts"));
  EXPECT_THAT(mismatch("\"h\" = S(1:4+4)\n"), HasSubstr("the blocks add up to 8"));
  EXPECT_THAT(mismatch("\"x\" -> \"y\" = S(0)\n"), HasSubstr("'x' is not read for 'y'"));
  EXPECT_THAT(mismatch("\"h\" -> output = S(0)\n"), HasSubstr("'h' is no output"));
  EXPECT_THAT(mismatch("\"r\" = P(sum)\n"), HasSubstr("(Relu) cannot compute P(sum) from R"));
  EXPECT_THAT(mismatch("\"x\" -> \"h\" = P(sum)\n"), HasSubstr("'x' is R and cannot be converted to P(sum)"));
  EXPECT_THAT(mismatch("", 3), HasSubstr("the plan is for 2 ranks, but there are 3"));
}

TEST(Plans, OfAModelThatCommunicatesAreRefused) {
  const ir::UserError error =
      error_of([&] { with_plan("g (float[4] x) => (float[4] y) { y = ai.braid.AllReduce(x) }", ""); });
  EXPECT_EQ(error.code(), errors::kCannotSplit);
}

TEST(Plans, WithoutLinesChangeNothing) {
  ImportOptions options;
  options.ranks = 2;
  const ir::Schedule plain = import_text(kMlp, options);
  EXPECT_EQ(ir::print(with_plan(kMlp, "")), ir::print(plain));
}

// The split of Megatron-LM, with the weights given to the program in parts.
TEST(Plans, OfTwoProductsHaveOneAllReduce) {
  const ir::Schedule schedule =
      with_plan(kMlp,
                "\"w\" = S(1)\n\"v\" = S(0)\n\"h\" = S(1)\n\"r\" = S(1)\n\"p\" = P(sum)\n"
                "\"p\" -> \"y\" = R\n");
  int collectives = 0;
  for (const ir::Operation& op : schedule.graph.ops) collectives += op.as<ir::CollectiveKernel>() != nullptr;
  EXPECT_EQ(collectives, 1);
}

// Copies are no tensors of a plan, unless it speaks of them.
TEST(Plans, MayNameCopies) {
  const std::string copied =
      "g (float[4, 8] x, float[8, 12] w, float[12, 8] v, float[8] b) => (float[4, 8] y) "
      "{ h = MatMul(x, w) c = Identity(h) r = Relu(c) p = MatMul(r, v) t = Add(p, b) y = Identity(t) }";
  const std::string split = "\"w\" = S(1)\n\"v\" = S(0)\n\"h\" = S(1)\n\"r\" = S(1)\n\"p\" = P(sum)\n";
  const std::string lines = split + "\"p\" -> \"y\" = R\n";
  const std::string program = ir::print(with_plan(kMlp, lines));
  EXPECT_EQ(ir::print(with_plan(copied, lines)), program);
  EXPECT_EQ(ir::print(with_plan(copied, lines + "\"c\" = S(1)\n")), program);
  EXPECT_EQ(ir::print(with_plan(copied, lines + "\"h\" -> \"c\" = S(1)\n\"c\" = S(1)\n")), program);
  EXPECT_EQ(ir::print(with_plan(copied, split + "\"p\" -> \"t\" = R\n")), program);
  const ir::UserError error = error_of([&] { with_plan(copied, lines + "\"c\" = R\n"); });
  EXPECT_EQ(error.code(), errors::kPlanMismatch);
  EXPECT_THAT(error.what(), HasSubstr("the node of 'c' (Identity) cannot compute R from S(1)"));
}

// The plan of docs/sharding.md.
TEST(Plans, OfThePageIsAsItSays) {
  std::ifstream page(paths::source("docs/sharding.md"));
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const std::size_t begin = text.find("\nplan 1\n");
  ASSERT_NE(begin, std::string::npos);
  const std::string plan = text.substr(begin, text.find("```", begin) - begin);
  onnx::ModelProto model = parse_model(
      "g (float[4, 8] x) => (float[4, 8] y) { up = ConstantOfShape <value = float[1] {0.25}> (us) "
      "h = MatMul(x, up) a = Relu(h) p = MatMul(a, down) y = Add(p, x) }");
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.mutable_node()->DeleteSubrange(0, 1);
  unsigned seed = 3;
  for (const auto& [name, rows, columns] : {std::tuple("up", 8, 16), std::tuple("down", 16, 8)}) {
    onnx::TensorProto& weight = *graph.add_initializer();
    weight.set_name(name);
    weight.set_data_type(onnx::TensorProto::FLOAT);
    weight.add_dims(rows);
    weight.add_dims(columns);
    const ir::Tensor values = random_tensor(ir::DType::f32, {rows, columns}, -4, 4, false, seed++);
    weight.set_raw_data(values.bytes.data(), values.bytes.size());
  }
  const ir::Tensor x = random_tensor(ir::DType::f32, {4, 8}, -4, 4, false, 7);
  const std::vector<std::vector<ir::Tensor>> one{{x}}, two{{x}, {x}};
  const ir::Tensor expected = ir::run(import_proto(model), one).outputs[0][0];
  auto request = std::make_shared<SplitRequest>();
  request->plan = plan;
  ImportOptions options;
  options.ranks = 2;
  options.split = request;
  const ir::Schedule schedule = import_proto(model, options);
  int collectives = 0;
  for (const ir::Operation& op : schedule.graph.ops) collectives += op.as<ir::CollectiveKernel>() != nullptr;
  EXPECT_EQ(collectives, 1);
  for (const auto& of_rank : ir::run(schedule, two).outputs) EXPECT_EQ(of_rank[0], expected);
}

// Every conversion that exists, by a chain of two Identity nodes.
TEST(Conversions, GiveEveryStateFromEveryOther) {
  for (const int ranks : {2, 3, 4}) {
    const std::vector<Spec> states = {Spec::replicated(),
                                      Spec::split(0),
                                      Spec::split(1),
                                      Spec::split(0, {12, 24}),
                                      Spec::split(1, {24, 12}),
                                      Spec::split(1, {12, 12, 12}),
                                      Spec::pending(ir::ReduceKind::sum),
                                      Spec::pending(ir::ReduceKind::max),
                                      Spec::pending(ir::ReduceKind::min),
                                      Spec::pending(ir::ReduceKind::prod)};
    const ir::Tensor whole = random_tensor(ir::DType::f32, {36, 36, 2}, -9, 9, false, 3);
    for (const Spec& from : states) {
      for (const Spec& to : states) {
        if (!conversion_steps(from, to, ir::DType::f32, 1, ranks)) continue;
        Plan plan;
        plan.ranks = ranks;
        plan.values["x"] = from;
        plan.values["h"] = from;
        plan.readers[{"h", {"y", -1}}] = to;
        plan.values["y"] = to;
        plan.readers[{"y", {"", -1}}] = to;
        auto request = std::make_shared<SplitRequest>();
        request->plan = to_string(plan);
        ImportOptions options;
        options.ranks = ranks;
        options.split = request;
        const ir::Schedule schedule = import_text(
            "g (float[36, 36, 2] x) => (float[36, 36, 2] y) { h = Identity(x) y = Identity(h) }", options);
        std::vector<std::vector<ir::Tensor>> inputs;
        for (ir::Tensor& part : cut(whole, from, ranks, 5)) inputs.push_back({std::move(part)});
        std::vector<ir::Tensor> parts;
        for (const auto& of_rank : ir::run(schedule, inputs).outputs) parts.push_back(of_rank[0]);
        EXPECT_EQ(difference(joined(parts, to), whole, 0), "")
            << to_string(from) << " to " << to_string(to) << " on " << ranks;
      }
    }
  }
}

// ---- what must not change a plan

onnx::ModelProto block_model() {
  // Norm, fused projection, heads, attention, projection, residual; then an MLP.
  onnx::ModelProto model = parse_model(
      "g (float[2, 4, 24] x, float[24] s, float[24, 72] wqkv, float[24, 24] wo, float[24, 48] wu, float[48, "
      "24] wd, float[24] bd) => "
      "(float[2, 4, 24] y) { n = LayerNormalization(x, s) qkv = MatMul(n, wqkv) q, k, v = Split <axis = -1, "
      "num_outputs = 3> (qkv) "
      "hs = Constant <value = int64[4] {0, 0, 4, 6}> () qh = Reshape(q, hs) kh = Reshape(k, hs) vh = "
      "Reshape(v, hs) "
      "qt = Transpose <perm = [0, 2, 1, 3]> (qh) kt = Transpose <perm = [0, 2, 3, 1]> (kh) vt = Transpose "
      "<perm = [0, 2, 1, 3]> (vh) "
      "sc = MatMul(qt, kt) pr = Softmax <axis = -1> (sc) at = MatMul(pr, vt) ah = Transpose <perm = [0, 2, "
      "1, 3]> (at) "
      "ds = Constant <value = int64[3] {0, 0, 24}> () ac = Reshape(ah, ds) o = MatMul(ac, wo) r = Add(x, o) "
      "u = MatMul(r, wu) g1 = Gelu(u) d = MatMul(g1, wd) db = Add(d, bd) y = Add(r, db) }",
      20);
  onnx::GraphProto& graph = *model.mutable_graph();
  // The weights are initializers.
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> inputs;
  inputs.Swap(graph.mutable_input());
  unsigned seed = 1;
  for (const onnx::ValueInfoProto& input : inputs) {
    if (input.name() == "x") {
      *graph.add_input() = input;
      continue;
    }
    onnx::TensorProto& weight = *graph.add_initializer();
    weight.set_name(input.name());
    weight.set_data_type(onnx::TensorProto::FLOAT);
    std::vector<std::int64_t> sizes;
    for (const auto& dim : input.type().tensor_type().shape().dim()) sizes.push_back(dim.dim_value());
    for (const std::int64_t size : sizes) weight.add_dims(size);
    const ir::Tensor values = random_tensor(ir::DType::f32, sizes, -1, 1, true, seed++);
    weight.set_raw_data(values.bytes.data(), values.bytes.size());
  }
  return model;
}

struct Outcome {
  Chosen chosen;
  int collectives = 0;
  ir::Tensor y;
};

Outcome split(const onnx::ModelProto& model, const Mesh& mesh) {
  Outcome outcome;
  const int ranks = mesh.ranks();
  ImportOptions options;
  options.ranks = ranks;
  options.split = chosen_request(outcome.chosen, 0, Caches::whole, mesh);
  const ir::Schedule schedule = import_proto(model, options);
  for (const ir::Operation& op : schedule.graph.ops)
    outcome.collectives += op.as<ir::CollectiveKernel>() != nullptr;
  const ir::Tensor x = random_tensor(ir::DType::f32, {2, 4, 24}, -1, 1, true, 99);
  const std::vector<std::vector<ir::Tensor>> inputs(static_cast<std::size_t>(ranks), {x});
  std::vector<ir::Tensor> parts;
  for (const auto& of_rank : ir::run(schedule, inputs).outputs) parts.push_back(of_rank[0]);
  outcome.y = joined(parts, Spec());
  return outcome;
}

TEST(SplitBlock, IsCutByHeadsWithTheFusedProjectionInBlocks) {
  const onnx::ModelProto model = block_model();
  const ir::Tensor x = random_tensor(ir::DType::f32, {2, 4, 24}, -1, 1, true, 99);
  const std::vector<std::vector<ir::Tensor>> inputs{{x}};
  const ir::Tensor plain = ir::run(import_proto(model), inputs).outputs[0][0];
  for (const int ranks : {2, 4}) {
    const Outcome outcome = split(model, Mesh::line(ranks));
    EXPECT_EQ(difference(outcome.y, plain, 1e-5), "");
    EXPECT_GT(outcome.chosen.split_nodes, 10) << to_string(outcome.chosen.plan);
    const Spec qkv = outcome.chosen.plan.axes[0].of_reader("wqkv", "qkv", 1, Spec());
    EXPECT_EQ(to_string(qkv), "S(1:24+24+24)") << to_string(outcome.chosen.plan);
  }
}

// The same model with other names of nodes and values.
onnx::ModelProto renamed(onnx::ModelProto model) {
  onnx::GraphProto& graph = *model.mutable_graph();
  const auto change = [&](std::string& name) {
    if (!name.empty() && name != "x" && name != "y")
      name = "z" + std::string(name.rbegin(), name.rend()) + "_";
  };
  for (onnx::TensorProto& t : *graph.mutable_initializer()) change(*t.mutable_name());
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    node.set_name("");
    for (std::string& name : *node.mutable_input()) change(name);
    for (std::string& name : *node.mutable_output()) change(name);
  }
  return model;
}

// Nodes in another order that is sorted too.
onnx::ModelProto reordered(onnx::ModelProto model, unsigned seed) {
  onnx::GraphProto& graph = *model.mutable_graph();
  std::vector<onnx::NodeProto> left(graph.node().begin(), graph.node().end());
  graph.clear_node();
  std::mt19937 random(seed);
  std::set<std::string> pending;
  for (const onnx::NodeProto& node : left) pending.insert(node.output().begin(), node.output().end());
  while (!left.empty()) {
    std::vector<std::size_t> ready;
    for (std::size_t k = 0; k < left.size(); ++k) {
      const auto& in = left[k].input();
      if (std::none_of(in.begin(), in.end(),
                       [&](const std::string& name) { return pending.count(name) > 0; }))
        ready.push_back(k);
    }
    const std::size_t k = ready[random() % ready.size()];
    for (const std::string& name : left[k].output()) pending.erase(name);
    *graph.add_node() = left[k];
    left.erase(left.begin() + static_cast<std::ptrdiff_t>(k));
  }
  return model;
}

// Puts an Identity after every node.
onnx::ModelProto with_identities(onnx::ModelProto model) {
  onnx::GraphProto& graph = *model.mutable_graph();
  const std::vector<onnx::NodeProto> nodes(graph.node().begin(), graph.node().end());
  graph.clear_node();
  for (onnx::NodeProto node : nodes) {
    std::vector<std::string> outputs(node.output().begin(), node.output().end());
    for (std::string& name : *node.mutable_output()) name += "/before";
    *graph.add_node() = node;
    for (const std::string& name : outputs) {
      onnx::NodeProto& identity = *graph.add_node();
      identity.set_op_type("Identity");
      identity.add_input(name + "/before");
      identity.add_output(name);
    }
  }
  return model;
}

TEST(SplitBlock, NamesOrderAndIdentityChangeNothing) {
  const onnx::ModelProto model = block_model();
  for (const Mesh& mesh : {Mesh::line(2), parse_mesh("dp=2,tp=2", "mesh")}) {
    const Outcome first = split(model, mesh);
    EXPECT_GT(first.chosen.split_nodes, 10) << to_string(first.chosen.plan);
    const std::vector<onnx::ModelProto> others = {renamed(model), reordered(model, 1), reordered(model, 2),
                                                  with_identities(model)};
    for (const onnx::ModelProto& other : others) {
      const Outcome outcome = split(other, mesh);
      EXPECT_EQ(outcome.y, first.y);
      EXPECT_EQ(outcome.collectives, first.collectives);
    }
  }
}

}  // namespace
}  // namespace braid::frontend::sharding
