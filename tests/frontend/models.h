// Models written as ONNX text, in folders that vanish with the test.
#pragma once

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "frontend/import.h"
#include "ir/error.h"
#include "tests/support/onnx_parser.h"

namespace braid::frontend {

// A folder of its own for one test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("braid_frontend_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }
  std::string write(const std::string& name, const onnx::ModelProto& model) const {
    return write(name, model.SerializeAsString());
  }

 private:
  std::filesystem::path path_;
};

// `graph` is ONNX text: "g (float[2] x) => (float[2] y) { y = Relu(x) }".
inline onnx::ModelProto parse_model(const std::string& graph, int opset = 17) {
  const std::string text = "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) +
                           ", \"com.microsoft\" : 1, \"ai.braid\" : 1]>\n" + graph;
  onnx::ModelProto model;
  const onnx::Common::Status status = onnx::OnnxParser::Parse(model, text.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model;
}

inline ir::Schedule import_proto(const onnx::ModelProto& model, const ImportOptions& options = {}) {
  const TemporaryFolder folder;
  return import_model(folder.write("model.onnx", model), options);
}
inline ir::Tensor floats(std::vector<std::int64_t> sizes, const std::vector<float>& values) {
  return ir::make_tensor(ir::DType::f32, std::move(sizes), values);
}

inline ir::Schedule import_text(const std::string& graph, const ImportOptions& options = {}, int opset = 17) {
  return import_proto(parse_model(graph, opset), options);
}

// The UserError that `f` throws; fails the test where it throws none.
template <class F>
ir::UserError error_of(const F& f) {
  try {
    f();
  } catch (const ir::UserError& error) {
    return error;
  }
  ADD_FAILURE() << "no UserError";
  return ir::UserError(0, {}, "none", "");
}

}  // namespace braid::frontend
