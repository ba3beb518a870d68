// ONNX's checker, and its errors as ours.
#include "frontend/check.h"

#include <fmt/format.h>
#include <onnx/checker.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>

#include "frontend/foreign_text.h"
#include "frontend/node_row.h"
#include "ir/error_numbers.h"

namespace braid::frontend {

using ir::user_error;

namespace {

// The text between `before` and one of `stops`; "" where `before` does not occur.
std::string between(const std::string& text, const std::string& before, const char* stops) {
  const std::size_t at = text.find(before);
  if (at == std::string::npos) return {};
  const std::size_t start = at + before.size();
  return text.substr(start, text.find_first_of(stops, start) - start);
}

bool mentions(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* w) { return text.find(w) != std::string::npos; });
}

// ONNX's messages end with the place: this extracts the sentence.
std::string sentence(std::string text) {
  if (const std::size_t context = text.find("\n\n==> Context"); context != std::string::npos)
    text.erase(context);
  if (const std::size_t line = text.find('\n'); line != std::string::npos) text.erase(line);
  if (text.rfind("(op_type:", 0) == 0) {
    if (const std::size_t end = text.find("): "); end != std::string::npos) text.erase(0, end + 3);
  }
  return text;
}

// The first output of the first unnamed node of that type: better than no place.
std::string find_unnamed(const onnx::GraphProto& graph, const std::string& op) {
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() == op && node.name().empty()) return name_of(node);
  }
  return {};
}

// A domain without definitions, whose nodes the checker only connects.
constexpr char kUnchecked[] = "braid.unchecked";

// Hides the operators of branches of If from the checker, which still checks names and their scopes there.
void hide_branches(onnx::GraphProto& graph, bool hidden) {
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    const bool branches = hidden || (node.op_type() == "If" && domain_of(node).empty());
    google::protobuf::RepeatedPtrField<onnx::AttributeProto> bodies;
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) hide_branches(*attribute.mutable_g(), branches);
      if (hidden && attribute.has_g()) bodies.Add()->Swap(&attribute);
    }
    if (!hidden) continue;
    node.mutable_attribute()->Swap(&bodies);
    node.set_domain(kUnchecked);
  }
}

// Returns the graph with types for all weights and outputs. The checker does not know initializers that were
// taken out of the message, and asks for declarations that lowering does without.
onnx::GraphProto declared(const Model& model) {
  onnx::GraphProto graph = model.proto.graph();
  hide_branches(graph, false);
  std::set<std::string> inputs;
  for (const onnx::ValueInfoProto& input : graph.input()) inputs.insert(input.name());
  for (const auto& [name, tensor] : model.initializers) {
    if (inputs.count(name) > 0) continue;
    onnx::ValueInfoProto& value = *graph.add_input();
    value.set_name(name);
    value.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_type_of(tensor.dtype));
    value.mutable_type()->mutable_tensor_type()->mutable_shape();
  }
  for (onnx::ValueInfoProto& output : *graph.mutable_output()) {
    const bool known = output.type().value_case() != onnx::TypeProto::VALUE_NOT_SET;
    if (known && !output.type().has_tensor_type()) continue;
    onnx::TypeProto_Tensor& type = *output.mutable_type()->mutable_tensor_type();
    if (type.elem_type() == 0) type.set_elem_type(onnx::TensorProto::FLOAT);
    type.mutable_shape();
  }
  return graph;
}

namespace checker = onnx::checker;

// The names that a graph and the bodies in it define, and those that they read.
struct Names {
  std::set<std::string> defined, read;

  explicit Names(const onnx::GraphProto& graph) { add(graph); }
  void add(const onnx::GraphProto& graph) {
    for (const onnx::ValueInfoProto& input : graph.input()) defined.insert(input.name());
    for (const onnx::TensorProto& initializer : graph.initializer()) defined.insert(initializer.name());
    for (const onnx::NodeProto& node : graph.node()) {
      read.insert(node.input().begin(), node.input().end());
      defined.insert(node.output().begin(), node.output().end());
      for (const onnx::AttributeProto& attribute : node.attribute())
        if (attribute.has_g()) add(attribute.g());
    }
  }
};

// Runs `check`, which calls the checker for nodes of this graph, and throws its errors as ours.
template <class Check>
void located(const Model& model, const onnx::GraphProto& graph, const Check& check) {
  try {
    checker::CheckerContext context;
    context.set_ir_version(static_cast<int>(model.proto.ir_version()));
    std::unordered_map<std::string, int> imports;
    for (const onnx::OperatorSetIdProto& import : model.proto.opset_import())
      imports[import.domain()] = static_cast<int>(import.version());
    imports[kUnchecked] = 1;
    context.set_opset_imports(imports);
    // The folder of the external data of tensors in attributes.
    context.set_model_dir(std::filesystem::path(model.path).parent_path().string());
    check(context);
  } catch (const std::exception& error) {  // ValidationError, and exceptions of single schemas
    const std::string text = foreign_text(error);
    ir::Location at{
        .file = model.path, .node = between(text, "Name: ", " \n"), .op = between(text, "OpType: ", " \n")};
    if (at.node == "OpType:") at.node.clear();
    if (at.node.empty() && !at.op.empty()) at.node = find_unnamed(graph, at.op);
    const std::string what = sentence(text);
    user_error(mentions(what, {"ttribute"}) ? errors::kInvalidAttribute : errors::kInvalidNode, at, what,
               "export the model again");
  }
}

}  // namespace

void check_with_onnx(const Model& model) {
  located(model, model.proto.graph(), [&](checker::CheckerContext& context) {
    const checker::LexicalScopeContext scope;
    checker::check_graph(declared(model), context, scope);
    constexpr int kWithFunctions = 8;
    if (model.proto.ir_version() >= kWithFunctions)
      checker::check_model_local_functions(model.proto, context, scope);
  });
}

void check_with_onnx(const Model& model, const onnx::GraphProto& branch,
                     const std::function<bool(const std::string& value)>& is_defined) {
  located(model, branch, [&](checker::CheckerContext& context) {
    context.set_is_main_graph(false);
    checker::LexicalScopeContext scope;
    const Names names(branch);
    for (const std::string& name : names.read)
      if (names.defined.count(name) == 0 && is_defined(name)) scope.add(name);
    onnx::GraphProto own = branch;
    hide_branches(own, false);
    checker::check_graph(own, context, scope);
  });
}

}  // namespace braid::frontend
