// Models with ONNX's annotations for several devices, and the plans that obey them.
#pragma once

#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "frontend/sharding/annotations.h"
#include "ir/interpreter.h"
#include "split/fixed_lines.h"
#include "tests/frontend/models.h"
#include "tests/frontend/sharding/chosen.h"
#include "tests/frontend/sharding/proof.h"

namespace braid::frontend::sharding {

// Makes a model of a graph in ONNX text, with the device configurations of `configurations`. Inputs other
// than x... become weights of whole numbers. `nodes` has the text of NodeDeviceConfigurationProto for nodes
// by their first outputs.
inline onnx::ModelProto annotated_model(const std::string& graph,
                                        const std::vector<std::pair<std::string, std::string>>& nodes,
                                        const std::string& configurations, int ir_version = 11,
                                        int opset = 18) {
  onnx::ModelProto model;
  const std::string text =
      fmt::format("<ir_version: {}, opset_import: [\"\" : {}, \"local\" : 1]>\n{}", ir_version, opset, graph);
  const onnx::Common::Status status = onnx::OnnxParser::Parse(model, text.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  onnx::GraphProto& own = *model.mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> inputs;
  inputs.Swap(own.mutable_input());
  unsigned seed = 1;
  for (const onnx::ValueInfoProto& input : inputs) {
    if (input.name()[0] == 'x') {
      *own.add_input() = input;
      continue;
    }
    onnx::TensorProto& weight = *own.add_initializer();
    weight.set_name(input.name());
    weight.set_data_type(input.type().tensor_type().elem_type());
    std::vector<std::int64_t> sizes;
    for (const auto& dim : input.type().tensor_type().shape().dim()) sizes.push_back(dim.dim_value());
    for (const std::int64_t size : sizes) weight.add_dims(size);
    const bool integers = weight.data_type() == onnx::TensorProto::INT64;
    const ir::Tensor values =
        random_tensor(integers ? ir::DType::i64 : ir::DType::f32, sizes, -9, 9, false, seed++);
    weight.set_raw_data(values.bytes.data(), values.bytes.size());
  }
  onnx::ModelProto declared;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(configurations, &declared)) << configurations;
  *model.mutable_configuration() = declared.configuration();
  for (const auto& [output, said] : nodes) {
    onnx::NodeDeviceConfigurationProto own_configuration;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(said, &own_configuration)) << said;
    if (!own_configuration.has_configuration_id()) own_configuration.set_configuration_id("c");
    for (onnx::NodeProto& node : *own.mutable_node()) {
      if (node.output(0) == output) *node.add_device_configurations() = own_configuration;
    }
  }
  return model;
}

struct Obeyed {
  MeshPlan plan;
  ir::Schedule schedule;
};

// A request that searches under the annotations of a configuration; notes what was chosen in `plan`.
inline std::shared_ptr<const SplitRequest> obeying_request(const DeviceConfiguration& configuration,
                                                           MeshPlan& plan, unsigned seed = 0) {
  auto request = std::make_shared<SplitRequest>();
  request->mesh = configuration.mesh;
  request->choose = [&plan, configuration, seed](const Graph& graph, const Mesh& mesh) {
    const FixedLines fixed = annotated_lines(graph, configuration, mesh);
    const SplitSpace space(graph, mesh, with_lines(graph, fixed.plan, fixed.blocks, Caches::whole));
    require_kept(graph, space);
    const SplitChoice choice = choose_split(space, test_costs(seed));
    require_kept(choice.solution);
    return plan = choice.plan;
  };
  return request;
}

// Splits the model as it says, over as many ranks as the configuration has devices.
inline Obeyed obey(const onnx::ModelProto& model, const std::string& wanted = "", unsigned seed = 0) {
  const TemporaryFolder folder;
  const std::string path = folder.write("model.onnx", model);
  const std::optional<DeviceConfiguration> configuration = device_configuration(path, wanted);
  Obeyed result;
  if (!configuration) return result;
  ImportOptions options;
  options.ranks = configuration->devices;
  for (const std::string& name : dimension_names(path)) options.dims[name] = {1, 8};
  options.split = obeying_request(*configuration, result.plan, seed);
  result.schedule = import_model(path, options);
  return result;
}

// Every rank returns what the plain model does, bit for bit.
inline void expect_plain_results(const onnx::ModelProto& model, const Obeyed& obeyed) {
  const ir::Schedule plain = import_proto(model);
  std::vector<ir::Tensor> inputs;
  unsigned seed = 77;
  for (const auto& input : plain.graph.inputs) {
    const ir::Buffer& buffer = plain.graph[input.buffer];
    std::vector<std::int64_t> sizes;
    for (const ir::Expr& size : buffer.sizes) sizes.push_back(size.constant());
    inputs.push_back(random_tensor(buffer.dtype, sizes, -9, 9, false, seed++));
  }
  const std::vector<std::vector<ir::Tensor>> one{inputs},
      all(static_cast<std::size_t>(obeyed.plan.ranks()), inputs);
  const auto expected = ir::run(plain, one).outputs[0];
  for (const auto& of_rank : ir::run(obeyed.schedule, all).outputs) {
    for (std::size_t k = 0; k < expected.size(); ++k)
      EXPECT_TRUE(of_rank[k] == expected[k]) << difference(of_rank[k], expected[k], 0) << "\n"
                                             << to_string(obeyed.plan);
  }
}

}  // namespace braid::frontend::sharding
