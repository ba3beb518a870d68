// The ONNX library inside braid_compiler: its headers are found and its checker and shape inference are
// linked.
#include <gtest/gtest.h>
#include <onnx/checker.h>
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

namespace {

onnx::ModelProto parse_model(const char* text) {
  onnx::ModelProto model;
  const onnx::Common::Status status = onnx::OnnxParser::Parse(model, text);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model;
}

TEST(OnnxLibrary, CheckerAcceptsAValidModel) {
  const onnx::ModelProto model = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    agraph (float[N, 4] x, float[4, 3] w) => (float[N, 3] y) { y = MatMul(x, w) })");
  EXPECT_NO_THROW(onnx::checker::check_model(model));
}

TEST(OnnxLibrary, CheckerRefusesAnUnknownOperator) {
  const onnx::ModelProto model = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    agraph (float[2] x) => (float[2] y) { y = NoSuchOperator(x) })");
  EXPECT_THROW(onnx::checker::check_model(model), onnx::checker::ValidationError);
}

TEST(OnnxLibrary, ShapeInferenceFindsTheShapeOfAnIntermediate) {
  onnx::ModelProto model = parse_model(R"(<ir_version: 8, opset_import: ["" : 17]>
    agraph (float[2, 4] x, float[4, 3] w) => (float[2, 3] y) { t = MatMul(x, w)  y = Relu(t) })");
  onnx::shape_inference::InferShapes(model);
  ASSERT_EQ(model.graph().value_info_size(), 1);
  EXPECT_EQ(model.graph().value_info(0).type().tensor_type().shape().dim(1).dim_value(), 3);
}

}  // namespace
