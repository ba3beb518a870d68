// Small models that say large things: time and memory follow the file, not what it says.
#include <gmock/gmock.h>

#include "frontend/errors.h"
#include "frontend/functions.h"
#include "ir/interpreter.h"
#include "tests/frontend/models.h"

namespace braid::frontend {
namespace {

using ::testing::HasSubstr;

// `levels` functions, each of which calls the one before `calls` times.
onnx::ModelProto tower(int levels, int calls) {
  onnx::ModelProto model = parse_model("g (float[4] x) => (float[4] y) { y = Neg(x) }");
  onnx::OperatorSetIdProto& local = *model.add_opset_import();
  local.set_domain("local");
  local.set_version(1);
  for (int k = 0; k < levels; ++k) {
    onnx::FunctionProto& f = *model.add_functions();
    f.set_domain("local");
    f.set_name("f" + std::to_string(k));
    f.add_input("v0");
    *f.add_opset_import() = model.opset_import(0);
    *f.add_opset_import() = local;
    for (int n = 0; n < calls; ++n) {
      onnx::NodeProto& node = *f.add_node();
      node.set_op_type(k == 0 ? "Neg" : "f" + std::to_string(k - 1));
      node.set_domain(k == 0 ? "" : "local");
      node.add_input("v" + std::to_string(n));
      node.add_output("v" + std::to_string(n + 1));
    }
    f.add_output("v" + std::to_string(calls));
  }
  onnx::NodeProto& call = *model.mutable_graph()->mutable_node(0);
  call.set_domain("local");
  call.set_op_type("f" + std::to_string(levels - 1));
  return model;
}

TEST(FunctionsThatCallFunctions, AreExpandedWhereTheResultIsReasonable) {
  const std::vector<std::vector<ir::Tensor>> inputs = {
      {ir::make_tensor<float>(ir::DType::f32, {4}, {-1, 2, -3, 4})}};
  for (const auto& [levels, calls] : {std::pair(30, 1), {8, 2}}) {  // one negation, and 256
    const ir::InterpreterResult result = ir::run(import_proto(tower(levels, calls)), inputs);
    EXPECT_THAT(result.outputs[0][0].values<float>(),
                levels == 30 ? ::testing::ElementsAre(1, -2, 3, -4) : ::testing::ElementsAre(-1, 2, -3, 4));
  }
}

TEST(FunctionsThatCallFunctions, AreRefusedWhereTheyStandForTooManyNodes) {
  for (const auto& [levels, calls] : {std::pair(30, 2), {8, 8}, {60, 60}}) {
    const ir::UserError error = error_of([&] { import_proto(tower(levels, calls)); });
    EXPECT_EQ(error.code(), kFunctionExpansion) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("with every function call replaced by its body the model has"));
  }
}

TEST(FunctionsThatCallFunctions, AreRefusedWhereTheyAreNestedTooDeeply) {
  const ir::UserError error = error_of([] { import_proto(tower(2000, 1)); });
  EXPECT_EQ(error.code(), kFunctionExpansion);
  EXPECT_THAT(error.what(), HasSubstr("2000 levels deep"));
}

TEST(FunctionsThatCallFunctions, AreRecursiveAlsoThroughABranch) {
  onnx::ModelProto model = tower(1, 1);
  onnx::FunctionProto& f = *model.mutable_functions(0);
  onnx::NodeProto& choice = *f.add_node();
  choice.set_op_type("If");
  choice.add_input("v0");
  choice.add_output("w");
  onnx::AttributeProto& branch = *choice.add_attribute();
  branch.set_name("then_branch");
  branch.set_type(onnx::AttributeProto::GRAPH);
  onnx::NodeProto& call = *branch.mutable_g()->add_node();
  call.set_domain("local");
  call.set_op_type("f0");
  EXPECT_EQ(error_of([&] { import_proto(model); }).code(), kRecursiveFunction);
}

TEST(FunctionsThatCallFunctions, AreToldApartByTheirOverload) {
  onnx::ModelProto model = tower(1, 1);
  model.set_ir_version(10);
  onnx::FunctionProto other = model.functions(0);
  other.set_overload("absolute");
  other.mutable_node(0)->set_op_type("Abs");
  *model.add_functions() = other;
  model.mutable_graph()->mutable_node(0)->set_overload("absolute");
  const std::vector<std::vector<ir::Tensor>> inputs = {
      {ir::make_tensor<float>(ir::DType::f32, {4}, {-1, 2, -3, 4})}};
  const ir::InterpreterResult result = ir::run(import_proto(model), inputs);
  EXPECT_THAT(result.outputs[0][0].values<float>(), ::testing::ElementsAre(1, 2, 3, 4));
  *model.add_functions() = other;
  EXPECT_EQ(error_of([&] { import_proto(model); }).code(), kDuplicateName);
}

}  // namespace
}  // namespace braid::frontend
