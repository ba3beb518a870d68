#include "frontend/sharding/annotate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "frontend/sharding/device_layout.h"
#include "ir/error_numbers.h"
#include "split/split_space.h"

namespace braid::frontend::sharding {
namespace {

constexpr int kFirstIrVersion = 11;
constexpr const char* kName = "braid";

std::vector<std::int64_t> static_sizes(const GraphValue& value) {
  std::vector<std::int64_t> sizes;
  for (const ir::Expr& size : value.sizes) sizes.push_back(static_size(size).value_or(-1));
  return sizes;
}

class Writer {
 public:
  Writer(Model& model, const Graph& graph, const MeshPlan& plan)
      : model_(model), graph_(graph), plan_(plan), mesh_(plan.mesh) {}

  void run() {
    onnx::ModelProto& proto = model_.proto;
    proto.set_ir_version(std::max<std::int64_t>(proto.ir_version(), kFirstIrVersion));
    proto.clear_configuration();
    onnx::DeviceConfigurationProto& configuration = *proto.add_configuration();
    configuration.set_name(kName);
    configuration.set_num_devices(mesh_.ranks());
    if (mesh_.has_names()) {
      for (const std::string& name : device_names(mesh_)) configuration.add_device(name);
    }
    std::map<std::string, onnx::NodeProto*> nodes;
    for (onnx::NodeProto& node : *proto.mutable_graph()->mutable_node()) {
      node.clear_device_configurations();
      nodes[name_of_first(node)] = &node;
    }
    check_interface();
    SpaceOptions options;
    for (const GraphNode& node : graph_.nodes) suggest_blocks(node, options.blocks);
    const SplitSpace space(graph_, mesh_, options);
    for (const VariableId v : space.node_variables()) {
      const GraphNode& node = graph_.nodes[space.node_of(v)];
      onnx::NodeProto& own = *nodes.at(name_of_first(proto_of(node)));
      write(node, own);
      check_unique(space, v, own);
    }
  }

 private:
  static std::string name_of_first(const onnx::NodeProto& node) {
    for (const std::string& output : node.output()) {
      if (!output.empty()) return output;
    }
    return {};
  }

  [[noreturn]] void refuse(const onnx::NodeProto* node, const std::string& what) const {
    ir::user_error(errors::kAnnotationForm,
                   node == nullptr ? ir::Location{.file = model_.path} : location_of(model_.path, *node),
                   what, "ONNX's annotations cannot express this plan: keep it as text");
  }

  MeshSpec produced(ValueId v) const { return plan_.of_value(graph_.values[v].name); }
  MeshSpec taken(const GraphNode& node, int k) const {
    const GraphValue& value = graph_.values[node.inputs[k]];
    MeshSpec spec;
    for (const Plan& axis : plan_.axes) {
      const Spec own = value.constant ? Spec::replicated() : axis.of_value(value.name);
      spec.push_back(axis.of_reader(value.name, plan_name(graph_, node), k, own));
    }
    return spec;
  }

  // Nothing says in which state a model is given its inputs or returns its outputs: whole.
  void check_interface() const {
    const auto check = [&](ValueId v, const MeshSpec& spec, const char* what) {
      if (!is_replicated(spec))
        refuse(nullptr,
               fmt::format("the {} '{}' is {}", what, graph_.values[v].name, to_string(spec, mesh_)));
    };
    for (const ValueId v : graph_.inputs) check(v, produced(v), "input");
    for (int k = 0; k < count_of(graph_.outputs); ++k) {
      MeshSpec spec;
      for (const Plan& axis : plan_.axes)
        spec.push_back(axis.of_reader(graph_.values[graph_.outputs[k]].name, "", k, Spec::replicated()));
      check(graph_.outputs[k], spec, "output");
    }
  }

  void suggest_blocks(const GraphNode& node, BlockCandidates& blocks) const {
    const auto suggest = [&](ValueId v, const MeshSpec& spec) {
      const auto layout = layout_of(spec, static_sizes(graph_.values[v]), mesh_);
      if (!layout) return;
      for (const Spec& own : whole_state(*layout, *axes_of(*layout, mesh_), mesh_)) {
        if (!own.blocks.empty()) blocks[{v, own.dim}].insert(own.blocks);
      }
    };
    if (node.compile_time) return;
    for (int k = 0; k < count_of(node.inputs); ++k) {
      if (node.inputs[k].valid()) suggest(node.inputs[k], taken(node, k));
    }
    for (const ValueId v : node.outputs) {
      if (v.valid()) suggest(v, produced(v));
    }
  }

  void write(const GraphNode& node, onnx::NodeProto& proto) const {
    onnx::NodeDeviceConfigurationProto& own = *proto.add_device_configurations();
    own.set_configuration_id(kName);
    std::map<ValueId, MeshSpec> inputs;
    for (int k = 0; k < count_of(node.inputs); ++k) {
      const ValueId v = node.inputs[k];
      if (!v.valid()) continue;
      const GraphValue& value = graph_.values[v];
      const MeshSpec spec = taken(node, k);
      const auto [other, fresh] = inputs.emplace(v, spec);
      if (!(other->second == spec))
        refuse(&proto, fmt::format("it takes '{}' as {} and as {}", value.name,
                                   to_string(other->second, mesh_), to_string(spec, mesh_)));
      if (is_pending(spec)) {
        if (!value.constant)
          refuse(&proto, fmt::format("it takes '{}' as {}", value.name, to_string(spec, mesh_)));
        continue;  // the rule alone tells
      }
      if (fresh && !value.pinned) state(own, proto, value, spec);
    }
    for (const ValueId v : node.outputs) {
      if (!v.valid() || graph_.values[v].readers.empty() || graph_.values[v].pinned) continue;
      // An output without a statement has the state that the rule gives, reduced at once.
      if (const MeshSpec spec = produced(v); !is_pending(spec)) state(own, proto, graph_.values[v], spec);
    }
  }

  void state(onnx::NodeDeviceConfigurationProto& own, const onnx::NodeProto& node, const GraphValue& value,
             const MeshSpec& spec) const {
    const std::vector<std::int64_t> sizes = static_sizes(value);
    const std::optional<DeviceLayout> layout = layout_of(spec, sizes, mesh_);
    if (!layout)
      refuse(&node, fmt::format("'{}' is {}, in parts or blocks of different sizes", value.name,
                                to_string(spec, mesh_)));
    onnx::ShardingSpecProto& proto = *own.add_sharding_spec();
    proto.set_tensor_name(value.name);
    for (int k = 0; k < count_of(layout->devices); ++k) {
      const std::vector<int>& devices = layout->devices[k];
      if (devices.size() == 1 && layout->devices.size() > 1) {
        proto.add_device(devices[0]);
        continue;
      }
      const int key = -1 - k;
      proto.add_device(key);
      onnx::IntIntListEntryProto& group = *proto.add_index_to_device_group_map();
      group.set_key(key);
      for (const int d : devices) group.add_value(d);
    }
    std::int64_t behind = 1;  // the product of the factors that have been written
    for (std::size_t k = 0; k < layout->factors.size(); ++k) {
      const CutFactor& factor = layout->factors[k];
      const bool first = k == 0 || layout->factors[k - 1].dim != factor.dim;
      const bool last = k + 1 == layout->factors.size() || layout->factors[k + 1].dim != factor.dim;
      if (first) {
        proto.add_sharded_dim()->set_axis(factor.dim);
        behind = 1;
      }
      onnx::ShardedDimProto& dim = *proto.mutable_sharded_dim(proto.sharded_dim_size() - 1);
      const auto add = [&](std::int64_t extent, std::int64_t shards) {
        onnx::SimpleShardedDimProto& simple = *dim.add_simple_sharding();
        if (extent != sizes[factor.dim]) simple.set_dim_value(extent);
        simple.set_num_shards(shards);
      };
      if (factor.before > behind) add(factor.before / behind, 1);
      add(factor.extent, factor.shards);
      behind = factor.before * factor.extent;
      if (last && factor.after > 1) add(factor.after, 1);
    }
  }

  // The statements must leave exactly one combination of the rule: the plan's.
  void check_unique(const SplitSpace& space, VariableId variable, const onnx::NodeProto& proto) const {
    const GraphNode& node = graph_.nodes[space.node_of(variable)];
    bool known = false;
    for (const ChoiceId c : space.choices_of(variable)) {
      bool fits = true, same = true;
      const auto compare = [&](const MeshSpec& own, const MeshSpec& wanted) {
        fits = fits && (is_pending(wanted) || own == wanted);
        same = same && own == wanted;
      };
      for (int k = 0; k < count_of(node.inputs); ++k) {
        if (node.inputs[k].valid()) compare(space.taken_state(variable, c, k), taken(node, k));
      }
      for (int k = 0; k < count_of(node.outputs); ++k) {
        if (node.outputs[k].valid() && !graph_.values[node.outputs[k]].readers.empty())
          compare(space.produced_state(variable, c, k), produced(node.outputs[k]));
      }
      known = known || same;
      if (fits && !same)
        refuse(&proto, "what can be stated of its inputs and outputs leaves several ways to compute it");
    }
    if (!known) refuse(&proto, "no combination of its rule computes it as the plan says");
  }

  Model& model_;
  const Graph& graph_;
  const MeshPlan& plan_;
  const Mesh& mesh_;
};

}  // namespace

void annotate(Model& model, const Graph& graph, const MeshPlan& plan) { Writer(model, graph, plan).run(); }

}  // namespace braid::frontend::sharding
