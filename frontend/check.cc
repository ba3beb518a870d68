// ONNX's checker and shape inference, and their errors as ours.
#include "frontend/check.h"

#include <fmt/format.h>
#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <set>
#include <utility>

#include "frontend/errors.h"
#include "frontend/functions.h"
#include "frontend/guarded_schemas.h"
#include "frontend/inline.h"
#include "frontend/op_registry.h"

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
    const std::string text = error.what();
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
    const std::string text = error.what();
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

namespace {

using Problems = std::vector<std::pair<std::string, std::vector<std::string>>>;  // in the order of the graph

void add_problem(Problems& problems, const std::string& what, const std::string& origin) {
  for (auto& [known, nodes] : problems) {
    if (known == what) return nodes.push_back(origin);
  }
  problems.push_back({what, {origin}});
}

class SupportCheck {
 public:
  SupportCheck(const Model& model, const Opsets& opsets, const InferredTypes* types)
      : opsets_(opsets), types_(types) {
    for (const onnx::FunctionProto& f : model.proto.functions()) functions_[function_key(f)] = &f;
    for (const onnx::NodeProto& node : model.proto.graph().node()) visit(node, name_of(node));
  }
  // The nodes of a branch that is taken.
  SupportCheck(const Opsets& opsets, const onnx::GraphProto& branch) : opsets_(opsets), inlines_(false) {
    for (const onnx::NodeProto& node : branch.node()) visit(node, name_of(node));
  }

  void report(const Model& model) {
    if (problems_.empty()) return;
    // A branch with unsupported operators may never be taken; if the model is refused anyway, they are
    // reported too.
    for (const auto& [what, nodes] : inner_problems_) {
      for (const std::string& node : nodes) add_problem(problems_, what, node);
    }
    std::vector<std::string> lines;
    for (const auto& [what, nodes] : problems_) {
      std::string line = fmt::format("{} (node '{}'", what, nodes.front());
      if (nodes.size() > 1) line += fmt::format(" and {} more", nodes.size() - 1);
      lines.push_back(line + ")");
    }
    user_error(kUnsupportedOperators, {.file = model.path},
               fmt::format("{} operator{} not supported: {}", lines.size(),
                           lines.size() == 1 ? " is" : "s are", fmt::join(lines, ", ")),
               "`braid ops` lists the supported operators with their versions and types");
  }

 private:
  void visit(const onnx::NodeProto& node, const std::string& origin) {
    const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
    const std::string key = function_key(node);
    const auto opset = opsets_.find(domain);
    const int version = opset == opsets_.end() ? 1 : opset->second;
    const std::string name = domain.empty() ? node.op_type() : domain + "." + node.op_type();
    if (const auto local = functions_.find(key); local != functions_.end()) {
      visit_function(node, name, *local->second, origin);
    } else if (const OpSpec* spec = find_op(domain, node.op_type(), version)) {
      check_type(node, *spec, name, origin);
    } else if (!inlines_ || !has_function_body(domain, node.op_type(), version)) {
      add_problem(*problems_of_place_, name, origin);
    } else if (const onnx::FunctionProto* body =
                   onnx::OpSchemaRegistry::Schema(node.op_type(), version, domain)
                       ->GetFunction(version, false)) {
      visit_function(node, name, *body, origin);
    }
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) visit_inner_graph(attribute.g(), origin);
      for (const onnx::GraphProto& graph : attribute.graphs()) visit_inner_graph(graph, origin);
    }
  }

  // Functions are replaced by their bodies only in the graph itself.
  void visit_function(const onnx::NodeProto& call, const std::string& name, const onnx::FunctionProto& body,
                      const std::string& origin) {
    if (!inlines_) return add_problem(*problems_of_place_, name, origin);
    if (!visited_.insert(function_key(call)).second) return;
    for (const onnx::NodeProto& inner : body.node()) visit(inner, origin);
  }

  void visit_inner_graph(const onnx::GraphProto& graph, const std::string& origin) {
    const bool inlines = std::exchange(inlines_, false);
    Problems* const outer = std::exchange(problems_of_place_, &inner_problems_);
    for (const onnx::NodeProto& inner : graph.node())
      visit(inner, inner.name().empty() ? origin : inner.name());
    problems_of_place_ = outer;
    inlines_ = inlines;
  }

  void check_type(const onnx::NodeProto& node, const OpSpec& spec, const std::string& name,
                  const std::string& origin) {
    if (!types_ || node.input_size() == 0) return;
    const auto found = types_->find(node.input(0));
    if (found == types_->end() || !found->second->has_tensor_type()) return;
    const int type = found->second->tensor_type().elem_type();
    const std::optional<ir::DType> dtype = dtype_of_onnx(type);
    if (!dtype || !spec.types.contains(*dtype))
      add_problem(*problems_of_place_, fmt::format("{} of {}", name, onnx_type_name(type)), origin);
  }

  const Opsets& opsets_;
  const InferredTypes* types_ = nullptr;
  bool inlines_ = true;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::set<std::string> visited_;
  Problems problems_, inner_problems_;  // inner: in graphs that are attributes of nodes
  Problems* problems_of_place_ = &problems_;
};

}  // namespace

void check_supported(const Model& model, const Opsets& opsets, const InferredTypes* types) {
  SupportCheck(model, opsets, types).report(model);
}

void check_supported(const Model& model, const Opsets& opsets, const onnx::GraphProto& branch) {
  SupportCheck(opsets, branch).report(model);
}

}  // namespace braid::frontend
