// ONNX's checker and shape inference, and their errors as ours.
#include "frontend/check.h"

#include <fmt/format.h>
#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>

#include "frontend/errors.h"
#include "frontend/foreign_text.h"
#include "frontend/guarded_schemas.h"

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

// ONNX's messages end with the place and nest "[ShapeInferenceError]" marks: this extracts the sentence.
std::string sentence(std::string text) {
  for (const char* mark : {"[ShapeInferenceError] ", "[TypeInferenceError] ", "Inference error(s): "}) {
    for (std::size_t at; (at = text.find(mark)) != std::string::npos;)
      text.erase(at, std::string(mark).size());
  }
  if (const std::size_t context = text.find("\n\n==> Context"); context != std::string::npos)
    text.erase(context);
  if (const std::size_t line = text.find('\n'); line != std::string::npos) text.erase(line);
  if (text.rfind("(op_type:", 0) == 0) {
    if (const std::size_t end = text.find("): "); end != std::string::npos) text.erase(0, end + 3);
  }
  return text;
}

[[noreturn]] void inference_error(const std::string& text, const ir::Location& at) {
  const std::string first = text.substr(0, text.find('\n')), what = sentence(text);
  if (mentions(first, {"ttribute", "axis", "Axis", "perm"}))
    user_error(kInvalidAttribute, at, what, "export the model again");
  if (mentions(first, {"[TypeInferenceError]", "elem_type", "element type", "elem type", "input type",
                       "output type", "inconsistent type", "unsupported type"})) {
    user_error(kTypeMismatch, at, what, "check the types of the node's inputs and outputs");
  }
  user_error(kShapeMismatch, at, what, "check the shapes of the node's inputs and outputs");
}

// The first output of the first unnamed node of that type: better than no place.
std::string find_unnamed(const onnx::GraphProto& graph, const std::string& op) {
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() == op && node.name().empty()) return name_of(node);
  }
  return {};
}

}  // namespace

void check_with_onnx(const Model& model) {
  try {
    onnx::checker::check_model(model.proto);
  } catch (const std::exception& error) {  // ValidationError, and exceptions of single schemas
    const std::string text = foreign_text(error);
    ir::Location at{
        .file = model.path, .node = between(text, "Name: ", " \n"), .op = between(text, "OpType: ", " \n")};
    if (at.node == "OpType:") at.node.clear();
    if (at.node.empty() && !at.op.empty()) at.node = find_unnamed(model.proto.graph(), at.op);
    const std::string what = sentence(text);
    user_error(mentions(what, {"ttribute"}) ? kInvalidAttribute : kInvalidNode, at, what,
               "export the model again");
  }
}

void infer_shapes(Model& model) {
  constexpr bool kCheckTypes = true, kPropagateData = true;
  constexpr int kStrict = 1;
  try {
    const GuardedSchemas schemas;
    onnx::shape_inference::InferShapes(model.proto, &schemas,
                                       onnx::ShapeInferenceOptions(kCheckTypes, kStrict, kPropagateData));
  } catch (const std::exception& error) {  // InferenceError, and exceptions of single schemas
    const std::string text = foreign_text(error);
    ir::Location at{
        .file = model.path, .node = between(text, "node name: ", ")"), .op = between(text, "op_type:", ",)")};
    if (at.node.empty() && !at.op.empty()) at.node = find_unnamed(model.proto.graph(), at.op);
    inference_error(text, at);
  }
}

DeclaredTypes declared_types(const Model& model) {
  DeclaredTypes types;
  for (const auto* list : {&model.proto.graph().value_info(), &model.proto.graph().output()}) {
    for (const onnx::ValueInfoProto& value : *list) types[value.name()] = value.type();
  }
  return types;
}

InferredTypes types_of(const Model& model) {
  const onnx::GraphProto& graph = model.proto.graph();
  InferredTypes types;
  for (const auto* list : {&graph.value_info(), &graph.input(), &graph.output()}) {
    for (const onnx::ValueInfoProto& value : *list) types[value.name()] = &value.type();
  }
  return types;
}

}  // namespace braid::frontend
