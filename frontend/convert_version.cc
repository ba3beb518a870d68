#include "frontend/convert_version.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "frontend/lower_graph.h"
#include "frontend/op_registry.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using Nodes = std::vector<onnx::NodeProto>;

// Before operator set 7, the second operand of these lay along the axes of the first from `axis` on if
// `broadcast` was set; since then along the last ones.
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

onnx::AttributeProto& set_attribute(onnx::NodeProto& node, const char* name,
                                    onnx::AttributeProto::AttributeType type) {
  remove_attribute(node, name);
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

bool is_onnx(const onnx::NodeProto& node) { return node.domain().empty() || node.domain() == "ai.onnx"; }

// ONNX's names of element types, of which Cast had one before operator set 6.
std::optional<int> type_named(const std::string& name) {
  onnx::TensorProto::DataType type{};
  if (!onnx::TensorProto::DataType_Parse(name, &type)) return std::nullopt;
  return type;
}

// Gives nodes the form that their operators have in operator set 7.
class Converter {
 public:
  Converter(Model& model, int opset) : model_(model), opset_(opset) {}

  // Converts by the rules that need no sizes of operands, also in bodies.
  void convert(onnx::GraphProto& graph) {
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    nodes.Swap(graph.mutable_node());
    collect_names(nodes);
    for (onnx::NodeProto& node : nodes) {
      if (is_onnx(node)) convert(node, graph);
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (!attribute.has_g()) continue;
        convert(*attribute.mutable_g());
        for (const onnx::NodeProto& inner : attribute.g().node()) {
          if (lies_along_axis(inner)) refuse(inner, "its operand lies along an axis, in a branch or loop");
        }
      }
      *graph.add_node() = std::move(node);
    }
  }

  bool any_along_axis() const {
    const auto& nodes = model_.proto.graph().node();
    return std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) { return lies_along_axis(node); });
  }

  // An operand that lies along an axis gets trailing axes of size 1.
  std::optional<Nodes> with_axes(const onnx::NodeProto& given,
                                 const std::function<const Value*(const std::string&)>& value) {
    if (!lies_along_axis(given)) return std::nullopt;
    const Value *const first = value(given.input(0)), *const second = value(given.input(1));
    if (first == nullptr || second == nullptr) return std::nullopt;  // of something that is not supported
    const auto rank = static_cast<std::int64_t>(first->sizes.size()),
               own = static_cast<std::int64_t>(second->sizes.size());
    const onnx::AttributeProto* attribute = find_attribute(given, "axis");
    Nodes nodes(1, given);
    remove_attribute(nodes[0], "axis");
    std::int64_t axis = attribute != nullptr ? attribute->i() : 1;
    if (is_prelu(given)) {
      converted_.insert(given.output(0));
      if (rank < 2 || own != 1) return nodes;  // one slope
    }
    if (axis < 0) axis += rank;
    const std::int64_t trailing = rank - axis - own;
    if (axis < 0 || axis > rank || trailing < 0)
      refuse(given, fmt::format("'{}' does not fit from axis {} on", given.input(1), axis));
    if (trailing == 0) return nodes;
    onnx::NodeProto& unsqueeze = *nodes.emplace(nodes.begin());
    unsqueeze.set_op_type("Unsqueeze");
    unsqueeze.set_name(name_of(given) + "/Unsqueeze");
    unsqueeze.add_input(given.input(1));
    unsqueeze.add_output(fresh(name_of(given) + "/" + given.input(1)));
    nodes[1].set_input(1, unsqueeze.output(0));
    onnx::AttributeProto& axes = set_attribute(unsqueeze, "axes", onnx::AttributeProto::INTS);
    for (std::int64_t k = 0; k < trailing; ++k) axes.add_ints(own + k);
    return nodes;
  }

 private:
  [[noreturn]] void refuse(const onnx::NodeProto& node, const std::string& why) const {
    ir::user_error(errors::kVersionConversion, location_of(model_.path, node),
                   fmt::format("the model cannot be converted from operator set {} to {}: {}", opset_,
                               kOldestOpset, why),
                   fmt::format("export it for operator set {} or newer", kOldestOpset));
  }

  static bool is_prelu(const onnx::NodeProto& node) { return node.op_type() == "PRelu"; }
  bool lies_along_axis(const onnx::NodeProto& node) const {
    if (!is_onnx(node)) return false;
    // PRelu's slopes, if there are several, belonged to the channels.
    if (is_prelu(node)) return converted_.count(node.output(0)) == 0;
    return kBroadcasting.count(node.op_type()) > 0 && find_attribute(node, "axis") != nullptr;
  }

  void convert(onnx::NodeProto& node, onnx::GraphProto& graph) {
    remove_attribute(node, "consumed_inputs");
    const std::string& op = node.op_type();
    if (kBroadcasting.count(op) > 0) {
      const onnx::AttributeProto* broadcast = find_attribute(node, "broadcast");
      if (broadcast == nullptr || broadcast->i() == 0) remove_attribute(node, "axis");
      remove_attribute(node, "broadcast");
    }
    if (op == "Gemm") remove_attribute(node, "broadcast");
    if (op == "BatchNormalization" || op == "Dropout") leave_training(node);
    if (op == "RNN" || op == "GRU" || op == "LSTM") remove_attribute(node, "output_sequence");
    if (op == "Concat" && opset_ < 4 && find_attribute(node, "axis") == nullptr)
      set_attribute(node, "axis", onnx::AttributeProto::INT).set_i(1);
    if (op == "Reshape" && opset_ < 5) take_shape(node, graph);
    if (op == "Pad" && opset_ < 2) rename(node, "paddings", "pads");
    if (op == "Cast" && opset_ < 6) number_type(node);
    if ((op == "LpPool" || op == "GlobalLpPool") && opset_ < 2) whole_power(node);
    if (op == "Upsample") join_scales(node);
    if ((op == "Split" && opset_ < 2 && node.input_size() > 1) || (op == "Tile" && opset_ < 6))
      refuse(node, fmt::format("{} had operands of another form", op));
  }

  void leave_training(onnx::NodeProto& node) const {
    const onnx::AttributeProto* test = find_attribute(node, "is_test");
    if (test != nullptr && test->i() == 0) refuse(node, "it is in training mode (is_test = 0)");
    remove_attribute(node, "is_test");
  }

  void rename(onnx::NodeProto& node, const char* name, const char* now) const {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.name() == name) attribute.set_name(now);
    }
  }

  // The attribute becomes an operand.
  void take_shape(onnx::NodeProto& node, onnx::GraphProto& graph) {
    const onnx::AttributeProto* shape = find_attribute(node, "shape");
    if (shape == nullptr || node.input_size() != 1) refuse(node, "it has no attribute 'shape'");
    onnx::NodeProto& constant = *graph.add_node();
    constant.set_op_type("Constant");
    constant.set_name(name_of(node) + "/shape");
    constant.add_output(fresh(name_of(node) + "/shape"));
    onnx::TensorProto& value = *set_attribute(constant, "value", onnx::AttributeProto::TENSOR).mutable_t();
    value.set_data_type(onnx::TensorProto::INT64);
    value.add_dims(shape->ints_size());
    for (const std::int64_t size : shape->ints()) value.add_int64_data(size);
    node.add_input(constant.output(0));
    remove_attribute(node, "shape");
  }

  void number_type(onnx::NodeProto& node) const {
    const onnx::AttributeProto* to = find_attribute(node, "to");
    const std::optional<int> type = to == nullptr ? std::nullopt : type_named(to->s());
    if (!type) refuse(node, fmt::format("'{}' is not the name of a type", to == nullptr ? "" : to->s()));
    set_attribute(node, "to", onnx::AttributeProto::INT).set_i(*type);
  }

  void whole_power(onnx::NodeProto& node) const {
    const onnx::AttributeProto* p = find_attribute(node, "p");
    if (p == nullptr) return;
    const float power = p->f();
    if (!(power >= 1) || power > 1e6F || std::floor(power) != power)
      refuse(node, fmt::format("its attribute 'p' is {}, which is no positive integer", power));
    set_attribute(node, "p", onnx::AttributeProto::INT).set_i(static_cast<std::int64_t>(power));
  }

  void join_scales(onnx::NodeProto& node) const {
    const onnx::AttributeProto *const height = find_attribute(node, "height_scale"), *const width =
                                                                                         find_attribute(
                                                                                             node,
                                                                                             "width_scale");
    if (height == nullptr || width == nullptr) refuse(node, "it lacks 'height_scale' or 'width_scale'");
    const float scales[] = {1, 1, height->f(), width->f()};
    remove_attribute(node, "height_scale");
    remove_attribute(node, "width_scale");
    onnx::AttributeProto& joined = set_attribute(node, "scales", onnx::AttributeProto::FLOATS);
    for (const float scale : scales) joined.add_floats(scale);
  }

  void collect_names(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
    for (const onnx::ValueInfoProto& input : model_.proto.graph().input()) names_.insert(input.name());
    for (const auto& [name, tensor] : model_.initializers) names_.insert(name);
    for (const onnx::NodeProto& node : nodes) names_.insert(node.output().begin(), node.output().end());
  }
  std::string fresh(std::string name) {
    while (!names_.insert(name).second) name += "_";
    return name;
  }

  Model& model_;
  int opset_;
  std::set<std::string> names_;
  std::set<std::string> converted_;  // results of PRelu
};

}  // namespace

Opsets lowered_opsets(Opsets opsets) {
  if (const auto own = opsets.find(""); own != opsets.end())
    own->second = std::max(own->second, kOldestOpset);
  return opsets;
}

bool convert_old_model(Model& model, const Opsets& opsets, const DimBounds& dims, int ranks) {
  const auto own = opsets.find("");
  if (own == opsets.end() || own->second >= kOldestOpset) return false;
  if (model.proto.functions_size() > 0) {
    ir::user_error(
        errors::kVersionConversion, {.file = model.path},
        fmt::format("the model cannot be converted from operator set {} to {}: it defines functions",
                    own->second, kOldestOpset),
        fmt::format("export it for operator set {} or newer", kOldestOpset));
  }
  Converter converter(model, own->second);
  converter.convert(*model.proto.mutable_graph());
  for (onnx::OperatorSetIdProto& import : *model.proto.mutable_opset_import()) {
    if (import.domain().empty() || import.domain() == "ai.onnx") import.set_version(kOldestOpset);
  }
  if (converter.any_along_axis()) {
    rewrite_nodes(
        model, lowered_opsets(opsets), dims, ranks,
        [&](const onnx::NodeProto& node, const auto& value) { return converter.with_axes(node, value); });
  }
  return true;
}

}  // namespace braid::frontend
