#include "frontend/dead_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "frontend/functions.h"
#include "frontend/node_row.h"

namespace braid::frontend {
namespace {

bool has_effect(const onnx::NodeProto& node, const Opsets& opsets) {
  const OpSpec* spec = row_of(node, opsets);
  if (spec != nullptr && spec->effect) return true;
  return std::any_of(node.attribute().begin(), node.attribute().end(), [&](const auto& attribute) {
    const auto& inner = attribute.g().node();
    return std::any_of(inner.begin(), inner.end(), [&](const auto& n) { return has_effect(n, opsets); });
  });
}

void count(const onnx::NodeProto& node, Uses& uses) {
  for (const std::string& input : node.input()) {
    if (!input.empty()) ++uses[input];
  }
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    for (const onnx::NodeProto& inner : attribute.g().node()) count(inner, uses);
    for (const onnx::ValueInfoProto& output : attribute.g().output()) ++uses[output.name()];
  }
}

template <class HasEffect>
std::vector<bool> live(const onnx::GraphProto& graph, Uses& uses, const HasEffect& effect) {
  std::vector<bool> live(static_cast<std::size_t>(graph.node_size()), false);
  for (const onnx::ValueInfoProto& output : graph.output()) ++uses[output.name()];
  for (int k = graph.node_size(); k-- > 0;) {
    const onnx::NodeProto& node = graph.node(k);
    const bool read = std::any_of(node.output().begin(), node.output().end(), [&](const std::string& output) {
      return !output.empty() && uses.count(output) > 0;
    });
    if (!read && !effect(node)) continue;
    live[static_cast<std::size_t>(k)] = true;
    count(node, uses);
  }
  return live;
}

class DeadNodes {
 public:
  DeadNodes(const Model& model, const Opsets& opsets) : opsets_(opsets) {
    for (const onnx::FunctionProto& f : model.proto.functions()) {
      functions_.insert(function_key(f));
      functions_have_effects_ |= std::any_of(f.node().begin(), f.node().end(), [&](const auto& n) {
        return braid::frontend::has_effect(n, opsets);
      });
    }
  }

  void drop(onnx::GraphProto& graph) const {
    Uses uses;
    const std::vector<bool> keep =
        live(graph, uses, [&](const onnx::NodeProto& node) { return has_effect(node); });
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    for (int k = 0; k < graph.node_size(); ++k) {
      if (keep[static_cast<std::size_t>(k)]) nodes.Add()->Swap(graph.mutable_node(k));
    }
    graph.mutable_node()->Swap(&nodes);
    for (onnx::NodeProto& node : *graph.mutable_node()) {
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) drop(*attribute.mutable_g());
      }
    }
  }

 private:
  bool has_effect(const onnx::NodeProto& node) const {
    if (functions_have_effects_ && functions_.count(function_key(node)) > 0) return true;
    return braid::frontend::has_effect(node, opsets_);
  }

  const Opsets& opsets_;
  std::unordered_set<std::string> functions_;
  bool functions_have_effects_ = false;
};

class CalledFunctions {
 public:
  explicit CalledFunctions(const onnx::ModelProto& model) {
    for (const onnx::FunctionProto& f : model.functions()) functions_[function_key(f)] = &f;
    visit(model.graph().node());
  }
  bool contains(const onnx::FunctionProto& f) const { return called_.count(function_key(f)) > 0; }

 private:
  // Recursion ends, because check_functions has bounded the levels of calls, and the parser those of bodies.
  void visit(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
    for (const onnx::NodeProto& node : nodes) {
      const auto found = functions_.find(function_key(node));
      if (found != functions_.end() && called_.insert(found->first).second) visit(found->second->node());
      for (const onnx::AttributeProto& attribute : node.attribute())
        if (attribute.has_g()) visit(attribute.g().node());
    }
  }

  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::unordered_set<std::string> called_;
};

void drop_uncalled_functions(onnx::ModelProto& model) {
  if (model.functions_size() == 0) return;
  const CalledFunctions called(model);
  google::protobuf::RepeatedPtrField<onnx::FunctionProto> left;
  for (onnx::FunctionProto& f : *model.mutable_functions())
    if (called.contains(f)) left.Add()->Swap(&f);
  model.mutable_functions()->Swap(&left);
}

}  // namespace

std::vector<bool> live_nodes(const onnx::GraphProto& graph, const Opsets& opsets, Uses& uses) {
  return live(graph, uses, [&](const onnx::NodeProto& node) { return has_effect(node, opsets); });
}

void drop_dead_nodes(Model& model, const Opsets& opsets) {
  DeadNodes(model, opsets).drop(*model.proto.mutable_graph());
  drop_uncalled_functions(model.proto);
  if (model.refused.empty()) return;
  Uses uses;
  live_nodes(model.proto.graph(), opsets, uses);
  for (const auto& [name, error] : model.refused) {
    if (uses.count(name) > 0) throw error;
  }
}

void drop_unread_inputs(Model& model, const Opsets& opsets,
                        const std::function<void(const std::string& text)>& note) {
  const auto supported = [](const onnx::TypeProto& type) {
    // An input without a type is an error (resolve_dims).
    return type.value_case() == onnx::TypeProto::VALUE_NOT_SET ||
           (type.has_tensor_type() && dtype_of_onnx(type.tensor_type().elem_type()));
  };
  auto& inputs = *model.proto.mutable_graph()->mutable_input();
  if (std::ranges::all_of(inputs, [&](const auto& input) { return supported(input.type()); })) return;
  Uses uses;
  live_nodes(model.proto.graph(), opsets, uses);
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> left;
  for (onnx::ValueInfoProto& input : inputs) {
    if (supported(input.type()) || uses.count(input.name()) > 0) {
      left.Add()->Swap(&input);
    } else if (note) {
      note(fmt::format("nothing reads input '{}', whose type is not supported: the program does not take it",
                       input.name()));
    }
  }
  inputs.Swap(&left);
}

}  // namespace braid::frontend
