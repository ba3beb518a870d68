#include "frontend/convert_version.h"

#include <fmt/format.h>
#include <onnx/version_converter/convert.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "frontend/check.h"
#include "frontend/check_supported.h"
#include "frontend/errors.h"
#include "frontend/foreign_text.h"
#include "frontend/normalise.h"
#include "frontend/op_registry.h"

namespace braid::frontend {
namespace {

[[noreturn]] void cannot_convert(const Model& model, int opset, const std::string& why) {
  ir::user_error(
      kVersionConversion, {.file = model.path},
      fmt::format("the model cannot be converted from operator set {} to {}: {}", opset, kOldestOpset, why),
      fmt::format("export it for operator set {} or newer", kOldestOpset));
}

// Before operator set 7, the second operand of these lay along the axes of the first from `axis` on if `broadcast`
// was set; since then along the last ones.
const std::set<std::string> kBroadcasting = {"Add", "And", "Div", "Equal", "Greater", "Less",
                                             "Mul", "Or",  "Pow", "Sub",   "Xor"};

const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, const char* name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

void remove_attribute(onnx::NodeProto& node, const char* name) {
  auto& all = *node.mutable_attribute();
  all.erase(std::remove_if(all.begin(), all.end(), [&](const auto& a) { return a.name() == name; }),
            all.end());
}

// Gives such an operand trailing axes of size 1 where `axis` asks for them. ONNX's converter adds as many as the ranks
// differ by, whatever the axis: a bias along the channels would lie along the batch.
class OperandAxes {
 public:
  OperandAxes(Model& typed, int opset) : model_(typed), opset_(opset), types_(types_of(typed)) {}

  void run() {
    onnx::GraphProto& graph = *model_.proto.mutable_graph();
    for (const auto& [name, type] : types_) names_.insert(name);
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    nodes.Swap(graph.mutable_node());
    for (onnx::NodeProto& node : nodes) {
      if (lies_along_axis(node)) add_axes(node, graph);
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) refuse_inside(attribute.g());
      }
      *graph.add_node() = std::move(node);
    }
  }

 private:
  static bool lies_along_axis(const onnx::NodeProto& node) {
    if (!node.domain().empty()) return false;
    // PRelu's slopes, if there are several, belonged to the channels.
    if (node.op_type() == "PRelu") return true;
    const onnx::AttributeProto* broadcast = find_attribute(node, "broadcast");
    return kBroadcasting.count(node.op_type()) > 0 && broadcast && broadcast->i() != 0 &&
           find_attribute(node, "axis");
  }

  int rank_of(const std::string& value) const {
    const auto found = types_.find(value);
    if (found == types_.end() || !found->second->tensor_type().has_shape())
      cannot_convert(model_, opset_, fmt::format("the rank of '{}' is unknown", value));
    return found->second->tensor_type().shape().dim_size();
  }

  void add_axes(onnx::NodeProto& node, onnx::GraphProto& graph) {
    const int first = rank_of(node.input(0)), second = rank_of(node.input(1));
    const onnx::AttributeProto* given = find_attribute(node, "axis");
    if (given == nullptr && (first < 2 || second != 1)) return;  // one slope
    std::int64_t axis = given != nullptr ? given->i() : 1;
    if (axis < 0) axis += first;
    const std::int64_t trailing = first - axis - second;
    if (axis < 0 || trailing < 0) {
      cannot_convert(model_, opset_,
                     fmt::format("node '{}' ({}): '{}' does not fit from axis {} on", name_of(node),
                                 node.op_type(), node.input(1), axis));
    }
    remove_attribute(node, "axis");
    if (trailing == 0) return;
    onnx::NodeProto& unsqueeze = *graph.add_node();
    unsqueeze.set_op_type("Unsqueeze");
    unsqueeze.set_name(name_of(node) + "/Unsqueeze");
    unsqueeze.add_input(node.input(1));
    std::string name = name_of(node) + "/" + node.input(1);
    while (!names_.insert(name).second) name += "_";
    unsqueeze.add_output(name);
    node.set_input(1, name);
    onnx::AttributeProto& axes = *unsqueeze.add_attribute();
    axes.set_name("axes");
    axes.set_type(onnx::AttributeProto::INTS);
    onnx::TypeProto type = *types_.at(unsqueeze.input(0));
    for (std::int64_t k = 0; k < trailing; ++k) {
      axes.add_ints(second + k);
      type.mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(1);
    }
    onnx::ValueInfoProto& value = *graph.add_value_info();
    value.set_name(name);
    *value.mutable_type() = type;
  }

  // Types inside of branches are unknown here.
  void refuse_inside(const onnx::GraphProto& graph) const {
    for (const onnx::NodeProto& node : graph.node()) {
      if (lies_along_axis(node))
        cannot_convert(model_, opset_,
                       fmt::format("node '{}' ({}) in a branch lays its operand along an axis", name_of(node),
                                   node.op_type()));
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) refuse_inside(attribute.g());
      }
    }
  }

  Model& model_;
  int opset_;
  const InferredTypes types_;
  std::set<std::string> names_;
};

onnx::ModelProto converted(const Model& model, int opset) {
  namespace converter = onnx::version_conversion;
  try {
    converter::DefaultVersionConverter all;
    // Rules that it lacks.
    for (const char* op : {"And", "Equal", "Greater", "Less", "Or", "Xor"}) {
      all.registerAdapter(
          std::make_unique<converter::BroadcastForwardCompatibility>(op, onnx::OpSetID(6), onnx::OpSetID(7)));
    }
    for (const char* op : {"GRU", "LSTM", "RNN"})
      all.registerAdapter(op, 6, 7, converter::RemoveAttribute(onnx::Symbol("output_sequence")));
    return all.convert_version(model.proto, onnx::OpSetID(opset), onnx::OpSetID(kOldestOpset));
  } catch (const std::exception& error) {  // assertions of the converter and of single adapters
    cannot_convert(model, opset, foreign_text(error));
  }
}

}  // namespace

bool convert_old_model(Model& model, const Opsets& opsets) {
  const auto own = opsets.find("");
  if (own == opsets.end() || own->second >= kOldestOpset) return false;
  const int opset = own->second;
  if (model.proto.functions_size() > 0)
    cannot_convert(model, opset, "it defines functions, which ONNX's converter does not know");
  // By the names that operators have after the conversion.
  Opsets oldest = opsets;
  oldest[""] = kOldestOpset;
  check_supported(model, oldest);

  // Rules for broadcasting need the shapes of all values. Neither these nor the initializers of the copy belong to
  // the model.
  Model typed = model;
  declare_initializers(typed);
  check_with_onnx(typed);
  infer_shapes(typed);
  OperandAxes(typed, opset).run();
  onnx::ModelProto proto = converted(typed, opset);
  onnx::GraphProto& graph = *proto.mutable_graph();
  for (const onnx::TensorProto& initializer : graph.initializer()) {
    ir::internal_check(model.initializers.count(initializer.name()) > 0,
                       "ONNX's version converter added the initializer '{}'", initializer.name());
  }
  graph.clear_initializer();
  *graph.mutable_value_info() = model.proto.graph().value_info();
  model.proto = std::move(proto);
  return true;
}

}  // namespace braid::frontend
