#include "frontend/check_supported.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include <set>
#include <utility>

#include "frontend/errors.h"
#include "frontend/functions.h"
#include "frontend/inline.h"
#include "frontend/normalise.h"
#include "frontend/op_registry.h"

namespace braid::frontend {
namespace {

// An operator in the version of its domain that the model imports.
struct Operator {
  std::string domain, name;  // domain "" is ONNX's own
  int opset = 1;

  const onnx::OpSchema* schema() const { return onnx::OpSchemaRegistry::Schema(name, opset, domain); }
  const onnx::FunctionProto* body() const { return schema()->GetFunction(opset, false); }

  // As ONNX writes it, with the version of the definition in force: "GRU-14", "com.example.Sort-1".
  std::string text() const {
    const onnx::OpSchema* known = schema();
    return fmt::format("{}{}{}-{}", domain, domain.empty() ? "" : ".", name,
                       known ? known->SinceVersion() : opset);
  }

  std::string why_unsupported() const {
    const onnx::OpSchema* known = schema();
    if (!known) {
      if (domain == "com.microsoft.nchwc")
        return "its weights are packed for the processor that the file was written on; save the model with "
               "ORT_ENABLE_EXTENDED";
      if (!onnx::OpSchemaRegistry::Schema(name, domain)) return "this operator is unknown";
      int first = opset;
      while (!onnx::OpSchemaRegistry::Schema(name, first, domain)) ++first;
      return fmt::format("it is defined from operator set {} on", first);
    }
    if (known->Deprecated()) return "this operator is deprecated";
    std::vector<std::string> ranges;
    for (const OpSpec& spec : all_ops()) {
      if (spec.domain == domain && spec.name == name)
        ranges.push_back(fmt::format("{} to {}", spec.first_version, spec.last_version));
    }
    return ranges.empty() ? "not implemented"
                          : fmt::format("implemented only in operator sets {}", fmt::join(ranges, ", "));
  }
};

using Problem = UnsupportedOperator;  // its nodes in the order of the graph

void add_problem(std::vector<Problem>& problems, const std::string& op, const std::string& reason,
                 const std::string& node) {
  for (Problem& known : problems) {
    if (known.op == op && known.reason == reason) return known.nodes.push_back(node);
  }
  problems.push_back({op, reason, {node}});
}

class SupportCheck {
 public:
  SupportCheck(const Model& model, const Opsets& opsets, const InferredTypes* types)
      : opsets_(opsets), types_(types) {
    for (const onnx::FunctionProto& f : model.proto.functions()) functions_[function_key(f)] = &f;
    for (const onnx::NodeProto& node : model.proto.graph().node()) visit(node, name_of(node));
  }
  SupportCheck(const Opsets& opsets, const onnx::GraphProto& branch) : opsets_(opsets), inlines_(false) {
    for (const onnx::NodeProto& node : branch.node()) visit(node, name_of(node));
  }

  bool passed() const { return problems_.empty(); }

  std::vector<Problem> all() const {
    std::vector<Problem> problems = problems_;
    for (const Problem& inner : inner_problems_) {
      for (const std::string& node : inner.nodes) add_problem(problems, inner.op, inner.reason, node);
    }
    return problems;
  }

  void report(const Model& model) const {
    if (passed()) return;
    const std::vector<Problem> problems = all();
    std::string lines;
    for (const Problem& p : problems) {
      lines += fmt::format("\n    {} (node '{}'", p.op, p.nodes.front());
      if (p.nodes.size() > 1) lines += fmt::format(" and {} more", p.nodes.size() - 1);
      lines += fmt::format("): {}", p.reason);
    }
    ir::user_error(kUnsupportedOperators, {.file = model.path},
                   fmt::format("{} operator{} not supported:{}", problems.size(),
                               problems.size() == 1 ? " is" : "s are", lines),
                   "`braid ops` lists the supported operators with their versions and types");
  }

 private:
  Operator operator_of(const onnx::NodeProto& node) const {
    const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
    const auto opset = opsets_.find(domain);
    return {domain, node.op_type(), opset == opsets_.end() ? 1 : opset->second};
  }

  void visit(const onnx::NodeProto& node, const std::string& origin) {
    const Operator op = operator_of(node);
    if (const auto local = functions_.find(function_key(node)); local != functions_.end()) {
      visit_function(node, op, *local->second, origin);
    } else if (const OpSpec* spec = find_op(op.domain, op.name, op.opset)) {
      check_type(node, *spec, op, origin);
    } else if (!has_function_body(op.domain, op.name, op.opset)) {
      add_problem(*problems_of_place_, op.text(), op.why_unsupported(), origin);
    } else if (const onnx::FunctionProto* body = op.body()) {
      visit_function(node, op, *body, origin);
    } else if (!inlines_) {
      add_problem(*problems_of_place_, op.text(), kNotInlined, origin);
    } else if (types_) {
      visit_built_function(node, op, origin);
    }
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) visit_inner_graph(attribute.g(), origin);
      for (const onnx::GraphProto& graph : attribute.graphs()) visit_inner_graph(graph, origin);
    }
  }

  // Functions are replaced by their bodies only in the graph itself.
  void visit_function(const onnx::NodeProto& call, const Operator& op, const onnx::FunctionProto& body,
                      const std::string& origin) {
    if (!inlines_) return add_problem(*problems_of_place_, op.text(), kNotInlined, origin);
    if (!visited_.insert(function_key(call)).second) return;
    const InferredTypes* const types = std::exchange(types_, nullptr);  // names in the body are its own
    for (const onnx::NodeProto& inner : body.node()) visit(inner, origin);
    types_ = types;
  }

  // A body that ONNX makes for the types of the inputs. Why it cannot is found when functions are inlined.
  void visit_built_function(const onnx::NodeProto& call, const Operator& op, const std::string& origin) {
    try {
      const std::optional<onnx::FunctionProto> body = schema_function_body(call, op.opset, *types_);
      if (body) visit_function(call, op, *body, origin);
    } catch (const std::runtime_error&) {
    }
  }

  void visit_inner_graph(const onnx::GraphProto& graph, const std::string& origin) {
    const bool inlines = std::exchange(inlines_, false);
    std::vector<Problem>* const outer = std::exchange(problems_of_place_, &inner_problems_);
    for (const onnx::NodeProto& inner : graph.node())
      visit(inner, inner.name().empty() ? origin : inner.name());
    problems_of_place_ = outer;
    inlines_ = inlines;
  }

  void check_type(const onnx::NodeProto& node, const OpSpec& spec, const Operator& op,
                  const std::string& origin) {
    if (!types_ || node.input_size() == 0) return;
    const auto found = types_->find(node.input(0));
    if (found == types_->end() || !found->second->has_tensor_type()) return;
    const int type = found->second->tensor_type().elem_type();
    const std::optional<ir::DType> dtype = dtype_of_onnx(type);
    if (dtype && spec.types.contains(*dtype)) return;
    add_problem(*problems_of_place_, op.text(),
                fmt::format("not implemented for the element type {}", onnx_type_name(type)), origin);
  }

  static constexpr char kNotInlined[] = "it is a function, which is not inlined in a branch";

  const Opsets& opsets_;
  const InferredTypes* types_ = nullptr;
  bool inlines_ = true;
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::set<std::string> visited_;
  std::vector<Problem> problems_, inner_problems_;  // inner: in graphs that are attributes of nodes
  std::vector<Problem>* problems_of_place_ = &problems_;
};

}  // namespace

namespace {

// With the types that can be inferred; nullopt if that fails.
std::optional<Model> with_types(Model model) {
  try {
    declare_initializers(model);
    check_with_onnx(model);
    infer_shapes(model);
  } catch (const ir::UserError&) {
    return std::nullopt;
  }
  return model;
}

}  // namespace

void check_supported(const Model& model, const Opsets& opsets) {
  const SupportCheck by_name(model, opsets, nullptr);
  if (by_name.passed()) return;
  const std::optional<Model> typed = with_types(model);
  if (!typed) by_name.report(model);  // the unsupported operators come first
  check_supported(*typed, opsets, types_of(*typed));
}

std::vector<UnsupportedOperator> unsupported_operators(const Model& model, const Opsets& opsets) {
  const std::optional<Model> typed = with_types(model);
  if (!typed) return SupportCheck(model, opsets, nullptr).all();
  const InferredTypes types = types_of(*typed);
  return SupportCheck(*typed, opsets, &types).all();
}

void check_supported(const Model& model, const Opsets& opsets, const InferredTypes& types) {
  SupportCheck(model, opsets, &types).report(model);
}

void check_supported(const Model& model, const Opsets& opsets, const onnx::GraphProto& branch) {
  SupportCheck(opsets, branch).report(model);
}

}  // namespace braid::frontend
