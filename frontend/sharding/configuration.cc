#include "frontend/sharding/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "frontend/load_ranks.h"
#include "frontend/sharding/statement.h"
#include "ir/error_numbers.h"

namespace braid::frontend::sharding {
namespace {

constexpr int kFirstIrVersion = 11;

std::int64_t known_devices(const std::string& path, const onnx::DeviceConfigurationProto& proto) {
  constexpr int kMostDevices = 1024;
  const auto fail = [&](const std::string& what) {
    ir::user_error(errors::kAnnotation, {.file = path}, what, "correct the model's configuration");
  };
  if (proto.name().empty()) fail("a configuration of devices has no name");
  if (!proto.has_num_devices() || proto.num_devices() < 1 || proto.num_devices() > kMostDevices)
    fail(fmt::format("the configuration '{}' has {} devices, expected 1 to {}", proto.name(),
                     proto.num_devices(), kMostDevices));
  if (proto.device_size() > 0 && proto.device_size() != proto.num_devices())
    fail(fmt::format("the configuration '{}' has {} devices and {} names of devices", proto.name(),
                     proto.num_devices(), proto.device_size()));
  return proto.num_devices();
}

void refuse_inside(const std::string& path, const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                   bool inside) {
  for (const onnx::NodeProto& node : nodes) {
    if (inside && node.device_configurations_size() > 0)
      ir::user_error(errors::kAnnotationForm, location_of(path, node),
                     "it is annotated inside of a branch, a loop or a function",
                     "annotate nodes of the model's own graph");
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) refuse_inside(path, attribute.g().node(), true);
    }
  }
}

std::string first_output(const onnx::NodeProto& node) {
  for (const std::string& output : node.output()) {
    if (!output.empty()) return output;
  }
  return {};
}

void add(std::vector<DeviceLayout>& layouts, DeviceLayout layout) {
  const bool known = std::any_of(layouts.begin(), layouts.end(), [&](const DeviceLayout& other) {
    return other.devices == layout.devices &&
           std::equal(other.factors.begin(), other.factors.end(), layout.factors.begin(),
                      layout.factors.end(),
                      [](const CutFactor& a, const CutFactor& b) { return a.shards == b.shards; });
  });
  if (!known) layouts.push_back(std::move(layout));
}

}  // namespace

std::optional<DeviceConfiguration> device_configuration(const std::string& path, const std::string& name) {
  const Model model = load_model(path_of_rank(path, 0));
  const onnx::ModelProto& proto = model.proto;
  std::map<std::string, DeviceConfiguration> all;
  std::vector<std::string> names;
  std::map<std::string, std::vector<DeviceLayout>> layouts;  // different ones, in order
  for (const onnx::DeviceConfigurationProto& own : proto.configuration()) {
    const int devices = known_devices(path, own);
    if (!all.emplace(own.name(), DeviceConfiguration{path, own.name(), devices, {}, {}}).second)
      ir::user_error(errors::kAnnotation, {.file = path},
                     fmt::format("two configurations are named '{}'", own.name()), "rename one of them");
    names.push_back(own.name());
  }
  refuse_inside(path, proto.graph().node(), false);
  for (const onnx::FunctionProto& function : proto.functions()) refuse_inside(path, function.node(), true);
  for (const onnx::NodeProto& node : proto.graph().node()) {
    for (const onnx::NodeDeviceConfigurationProto& own : node.device_configurations()) {
      const auto found = all.find(own.configuration_id());
      if (found == all.end())
        ir::user_error(
            errors::kAnnotation, location_of(path, node),
            fmt::format("it is annotated for the configuration '{}', which the model does not have",
                        own.configuration_id()),
            fmt::format("the model's configurations are: {}", fmt::join(names, ", ")));
      found->second.nodes.push_back(first_output(node));
      for (const onnx::ShardingSpecProto& spec : own.sharding_spec()) {
        if (std::optional<DeviceLayout> layout = layout_of(spec, found->second.devices))
          add(layouts[found->first], std::move(*layout));
      }
    }
  }
  if (names.empty() && name.empty()) return std::nullopt;
  if (!names.empty() && proto.ir_version() < kFirstIrVersion)
    ir::user_error(
        errors::kAnnotation, {.file = path},
        fmt::format("the model has configurations of devices, but IR version {}", proto.ir_version()),
        fmt::format("they came with version {}", kFirstIrVersion));
  if (name.empty() && names.size() > 1)
    ir::user_error(errors::kAnnotation, {.file = path},
                   fmt::format("the model has the configurations {}", fmt::join(names, ", ")),
                   "name one with --configuration");
  const auto found = all.find(name.empty() ? names.front() : name);
  if (found == all.end())
    ir::user_error(errors::kAnnotation, {.file = path},
                   fmt::format("the model has no configuration '{}'", name),
                   names.empty() ? "it has none" : fmt::format("it has {}", fmt::join(names, ", ")));
  DeviceConfiguration& own = found->second;
  const auto declared = std::find_if(proto.configuration().begin(), proto.configuration().end(),
                                     [&](const auto& other) { return other.name() == own.name; });
  const std::optional<Mesh> named = mesh_of_names({declared->device().begin(), declared->device().end()});
  own.mesh = named ? *named : mesh_of(layouts[own.name], own.devices);
  return own;
}

}  // namespace braid::frontend::sharding
