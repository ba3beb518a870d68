#include "frontend/copies.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ir/error_numbers.h"
#include "ir/interpreter.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "OUTPUTS=OP(INPUTS)" of each node; bodies follow in braces, with what they return.
std::string text_of(const onnx::GraphProto& graph) {
  std::string text;
  const auto list = [&](const auto& names) {
    for (int k = 0; k < names.size(); ++k) text += (k > 0 ? "," : "") + names[k];
  };
  for (const onnx::NodeProto& node : graph.node()) {
    if (!text.empty()) text += " ";
    list(node.output());
    text += "=" + node.op_type() + "(";
    list(node.input());
    text += ")";
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (!attribute.has_g()) continue;
      text += "{" + text_of(attribute.g()) + ":";
      for (const onnx::ValueInfoProto& output : attribute.g().output()) text += output.name();
      text += "}";
    }
  }
  return text;
}

std::string left_of(const std::string& graph, const std::set<std::string>& keep = {}) {
  onnx::ModelProto model = parse_model(graph);
  leave_out_copies(*model.mutable_graph(), keep);
  return text_of(model.graph());
}

TEST(Copies, ReadersReadTheOriginal) {
  EXPECT_EQ(
      left_of("g (float[2] x) => (float[2] y) { a = Relu(x) b = Identity(a) c = Identity(b) y = Add(c, b) }"),
      "a=Relu(x) y=Add(a,a)");
  EXPECT_EQ(
      left_of("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Identity(x) b = Identity(w) y = "
              "Add(a, b) }"),
      "y=Add(x,w)");
  EXPECT_EQ(left_of("g (float[2] x) => (float[2] y) { a = Identity(x) y = Relu(x) }"), "y=Relu(x)");
}

TEST(Copies, OutputsAreComputedThemselves) {
  EXPECT_EQ(
      left_of("g (float[2] x) => (float[2] y) { a = Relu(x) b = Identity(a) y = Identity(b) c = Neg(a) }"),
      "y=Relu(x) c=Neg(y)");
  // One of two.
  EXPECT_EQ(
      left_of("g (float[2] x) => (float[2] y, float[2] z) { a = Relu(x) y = Identity(a) z = Identity(a) }"),
      "y=Relu(x) z=Identity(y)");
  // Inputs and weights keep their names.
  EXPECT_EQ(left_of("g (float[2] x) => (float[2] y, float[2] z) <float[2] w = {1, 2}> { a = Identity(x) y = "
                    "Identity(a) z = Identity(w) }"),
            "y=Identity(x) z=Identity(w)");
}

TEST(Copies, BodiesReadTheOriginal) {
  EXPECT_EQ(
      left_of("g (float[2] x, bool c) => (float[2] y) { a = Relu(x) b = Identity(a) y = If <then_branch = t "
              "() => (float[2] p) { q = Identity(b) p = Neg(q) }, else_branch = f () => (float[2] r) { r = "
              "Identity(b) }> (c) }"),
      "a=Relu(x) y=If(c){p=Neg(a):p}{r=Identity(a):r}");
  // A body has a value of that name; ONNX forbids it, but nothing must read the wrong one.
  EXPECT_EQ(
      left_of("g (float[2] x, bool c) => (float[2] y) { b = Identity(x) y = If <then_branch = t () => "
              "(float[2] p) { x = Neg(b) p = Add(x, b) }, else_branch = f () => (float[2] r) { r = Abs(b) }> "
              "(c) }"),
      "b=Identity(x) y=If(c){x=Neg(b) p=Add(x,b):p}{r=Abs(b):r}");
}

// Errors in a copy are found before it is left out.
TEST(Copies, OfWrongBodiesAreRefused) {
  for (const char* body : {
           "a = Identity(b) b = Identity(a) p = Add(x, b)",
           "a = Identity(a) p = Neg(a)",
           "q = Identity(x) r = Relu(q) q = Identity(v) p = Add(r, q)",
           "r = Relu(v) v = Identity(x) p = Add(r, v)",
           "q = Identity(nothing) p = Sub(q, x)",
           "q = Identity(w) w = Abs(x) p = Sub(q, w)",
       }) {
    const ir::UserError error = error_of([&] {
      import_text(
          fmt::format("g (float[2] x, bool c) => (float[2] y) {{ v = Neg(x) y = If <then_branch = t () => "
                      "(float[2] p) {{ {} }}, else_branch = f () => (float[2] r) {{ r = Abs(x) }}> (c) }}",
                      body));
    });
    EXPECT_EQ(error.code(), errors::kInvalidNode) << body << ": " << error.what();
  }
}

// A function of the model may have the operator's name; its calls are no copies.
TEST(Copies, OfAFunctionOfThatNameAreNone) {
  onnx::ModelProto model = parse_model(
      "g (float[2] x) => (float[2] y, float[2] z) { y = Identity(x) a = Identity(x) z = Abs(a) }\n"
      "<domain: \"\", opset_import: [\"\" : 17]> Identity (u) => (w) { w = Relu(u) }");
  const ir::Schedule schedule = import_proto(model);
  const std::vector<float> numbers = {1, -2};
  const std::vector<std::vector<ir::Tensor>> inputs = {{ir::make_tensor(ir::DType::f32, {2}, numbers)}};
  const std::vector<ir::Tensor> outputs = ir::run(schedule, inputs).outputs[0];
  EXPECT_THAT(outputs[0].values<float>(), ElementsAre(1, 0));
  EXPECT_THAT(outputs[1].values<float>(), ElementsAre(1, 0));
}

TEST(Copies, StayWhereSomethingSpeaksOfThem) {
  const std::string graph =
      "g (float[2] x) => (float[2] y) { a = Relu(x) b = Identity(a) c = Neg(b) y = Identity(c) }";
  EXPECT_EQ(left_of(graph), "a=Relu(x) y=Neg(a)");
  EXPECT_EQ(left_of(graph, {"b"}), "a=Relu(x) b=Identity(a) y=Neg(b)");
  EXPECT_EQ(left_of(graph, {"c"}), "a=Relu(x) c=Neg(a) y=Identity(c)");
  // These names do not go anyway.
  EXPECT_EQ(left_of(graph, {"a", "y"}), "a=Relu(x) y=Neg(a)");
}

TEST(Copies, StayWhereTheyDeclareMore) {
  const std::string begin = "g (float[n] x) => (float[m] y) <",
                    end = "> { a = Relu(x) b = Identity(a) y = Neg(b) }";
  EXPECT_EQ(left_of(begin + "float[k] a, float[k] b" + end), "a=Relu(x) y=Neg(a)");
  EXPECT_EQ(left_of(begin + "float[k] a" + end), "a=Relu(x) y=Neg(a)");
  EXPECT_EQ(left_of(begin + "float[4] b" + end), "a=Relu(x) b=Identity(a) y=Neg(b)");
  EXPECT_EQ(left_of(begin + "float[k] a, float[4] b" + end), "a=Relu(x) b=Identity(a) y=Neg(b)");
}

TEST(Copies, TellWhichNamesAreGone) {
  onnx::ModelProto model = parse_model(
      "g (float[2] x) => (float[2] y) <float[2] b> { a = Relu(x) b = Identity(a) c = Neg(b) y = "
      "Identity(c) }");
  EXPECT_THAT(leave_out_copies(*model.mutable_graph(), {}), ElementsAre("c"));
  model.mutable_graph()->clear_value_info();
  EXPECT_THAT(leave_out_copies(*model.mutable_graph(), {}), ElementsAre("b"));
  EXPECT_THAT(leave_out_copies(*model.mutable_graph(), {}), IsEmpty());
}

TEST(Copies, StayWhereTheyAreAnnotated) {
  onnx::ModelProto model =
      parse_model("g (float[2] x) => (float[2] y) { a = Relu(x) b = Identity(a) y = Neg(b) }");
  onnx::NodeProto& last = *model.mutable_graph()->mutable_node(2);
  last.add_device_configurations()->add_sharding_spec()->set_tensor_name("b");
  EXPECT_THAT(annotated_names(model.graph()), ElementsAre("b"));
  EXPECT_THAT(leave_out_copies(*model.mutable_graph(), annotated_names(model.graph())), IsEmpty());
  model.mutable_graph()->mutable_node(2)->clear_device_configurations();
  model.mutable_graph()->mutable_node(1)->add_device_configurations();
  EXPECT_THAT(leave_out_copies(*model.mutable_graph(), annotated_names(model.graph())), IsEmpty());
}

}  // namespace
}  // namespace braid::frontend
