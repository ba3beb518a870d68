// The ONNX library inside braid_compiler: its headers are found and its checker is
// linked.
#include <gtest/gtest.h>
#include <onnx/checker.h>
#include <onnx/onnx_pb.h>

#include "tests/support/onnx_parser.h"

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

}  // namespace
