#include "frontend/copies.h"

#include <google/protobuf/util/message_differencer.h>

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace braid::frontend {

namespace {

bool is_copy(const onnx::NodeProto& node) {
  return node.op_type() == "Identity" && (node.domain().empty() || node.domain() == "ai.onnx") &&
         node.input_size() == 1 && node.output_size() == 1 && node.attribute_size() == 0 &&
         node.device_configurations_size() == 0 && !node.input(0).empty() && !node.output(0).empty();
}

template <class F>
void for_each_body(const onnx::GraphProto& graph, const F& f) {
  for (const onnx::NodeProto& node : graph.node()) {
    for (const onnx::AttributeProto& attribute : node.attribute())
      if (attribute.has_g()) f(attribute.g());
  }
}

class Copies {
 public:
  Copies(onnx::GraphProto& graph, const std::set<std::string>& keep) : graph_(graph), keep_(keep) {
    for (const onnx::ValueInfoProto& output : graph.output()) outputs_.insert(output.name());
    for (const onnx::NodeProto& node : graph.node())
      computed_.insert(node.output().begin(), node.output().end());
    for (const auto* list : {&graph.value_info(), &graph.input(), &graph.output()})
      for (const onnx::ValueInfoProto& value : *list) declared_[value.name()] = &value.type();
    for_each_body(graph, [&](const onnx::GraphProto& body) { add_inner(body); });
  }

  std::set<std::string> leave_out() {
    std::set<std::string> gone;
    std::vector<int> left;
    for (int k = 0; k < graph_.node_size(); ++k) {
      if (!is_copy(graph_.node(k)) || !merge(graph_.node(k))) left.push_back(k);
    }
    if (!names_.empty()) {
      for (const auto& [name, other] : names_) gone.insert(name);
      google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
      for (const int k : left) nodes.Add()->Swap(graph_.mutable_node(k));
      graph_.mutable_node()->Swap(&nodes);
      for (onnx::NodeProto& node : *graph_.mutable_node()) {
        rename(*node.mutable_output());
        rename_reads(node);
      }
      google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> known;
      for (onnx::ValueInfoProto& value : *graph_.mutable_value_info())
        if (names_.count(value.name()) == 0) known.Add()->Swap(&value);
      graph_.mutable_value_info()->Swap(&known);
    }
    for (onnx::NodeProto& node : *graph_.mutable_node()) {
      for (onnx::AttributeProto& attribute : *node.mutable_attribute())
        if (attribute.has_g()) Copies(*attribute.mutable_g(), no_plan_speaks_of_).leave_out();
    }
    return gone;
  }

 private:
  // Nodes are in an order in which values are computed before they are read.
  bool merge(const onnx::NodeProto& node) {
    const std::string& copy = node.output(0);
    const std::string original = name_of(node.input(0));
    const bool returned = outputs_.count(copy) > 0;
    if (returned && (computed_.count(original) == 0 || outputs_.count(original) > 0)) return false;
    const auto& [gone, left] = returned ? std::pair(original, copy) : std::pair(copy, original);
    if (keep_.count(gone) > 0) return false;
    // A name of a body would hide the one that its nodes are to read.
    if (inner_.count(gone) > 0 || inner_.count(left) > 0) return false;
    if (const auto type = declared_.find(gone); type != declared_.end()) {
      const auto other = declared_.find(left);
      if (other == declared_.end() ||
          !google::protobuf::util::MessageDifferencer::Equals(*type->second, *other->second))
        return false;
    }
    names_[gone] = left;
    return true;
  }

  std::string name_of(const std::string& name) const {
    const std::string* last = &name;
    for (auto found = names_.find(name); found != names_.end(); found = names_.find(*last))
      last = &found->second;
    return *last;
  }

  void rename(google::protobuf::RepeatedPtrField<std::string>& names) const {
    for (std::string& name : names) name = name_of(name);
  }

  void rename_reads(onnx::NodeProto& node) const {
    rename(*node.mutable_input());
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (!attribute.has_g()) continue;
      for (onnx::NodeProto& inner : *attribute.mutable_g()->mutable_node()) rename_reads(inner);
      for (onnx::ValueInfoProto& output : *attribute.mutable_g()->mutable_output())
        output.set_name(name_of(output.name()));
    }
  }

  void add_inner(const onnx::GraphProto& body) {
    for (const onnx::ValueInfoProto& input : body.input()) inner_.insert(input.name());
    for (const onnx::TensorProto& weight : body.initializer()) inner_.insert(weight.name());
    for (const onnx::SparseTensorProto& weight : body.sparse_initializer())
      inner_.insert(weight.values().name());
    for (const onnx::NodeProto& node : body.node()) inner_.insert(node.output().begin(), node.output().end());
    for_each_body(body, [&](const onnx::GraphProto& inner) { add_inner(inner); });
  }

  onnx::GraphProto& graph_;
  const std::set<std::string>& keep_;
  const std::set<std::string> no_plan_speaks_of_;  // `keep` of bodies: no plan names their values
  std::unordered_set<std::string> outputs_, computed_, inner_;  // of the graph, by its nodes, in bodies
  std::unordered_map<std::string, const onnx::TypeProto*> declared_;
  std::unordered_map<std::string, std::string> names_;  // from a name that goes to the name that replaces it
};

}  // namespace

std::set<std::string> annotated_names(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const onnx::NodeProto& node : graph.node()) {
    for (const onnx::NodeDeviceConfigurationProto& own : node.device_configurations())
      for (const onnx::ShardingSpecProto& spec : own.sharding_spec()) names.insert(spec.tensor_name());
  }
  return names;
}

std::set<std::string> leave_out_copies(onnx::GraphProto& graph, const std::set<std::string>& keep) {
  return Copies(graph, keep).leave_out();
}

}  // namespace braid::frontend
