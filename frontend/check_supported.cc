#include "frontend/check_supported.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include <set>
#include <utility>

#include "frontend/functions.h"
#include "frontend/inline.h"
#include "frontend/node_row.h"
#include "ir/error_numbers.h"

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

class SupportCheck {
 public:
  SupportCheck(const Model& model, const Opsets& opsets) : opsets_(opsets) {
    for (const onnx::FunctionProto& f : model.proto.functions()) functions_[function_key(f)] = &f;
    for (const onnx::NodeProto& node : model.proto.graph().node()) visit(node, name_of(node));
  }
  SupportCheck(const Opsets& opsets, const onnx::GraphProto& branch) : opsets_(opsets), inlines_(false) {
    for (const onnx::NodeProto& node : branch.node()) visit(node, name_of(node));
  }

  bool passed() const { return problems_.empty(); }

  std::vector<Problem> all() const {
    std::vector<Problem> problems = problems_;
    for (const Problem& inner : inner_problems_) add_unsupported(problems, inner);
    return problems;
  }

 private:
  Operator operator_of(const onnx::NodeProto& node) const {
    return {domain_of(node), node.op_type(), version_of(node, opsets_)};
  }

  void visit(const onnx::NodeProto& node, const std::string& origin) {
    const Operator op = operator_of(node);
    const auto problem = [&](const std::string& reason) {
      add_unsupported(*problems_of_place_, {op.text(), reason, {origin}});
    };
    if (const auto local = functions_.find(function_key(node)); local != functions_.end()) {
      visit_function(node, *local->second, origin);
    } else if (find_op(op.domain, op.name, op.opset) == nullptr) {
      if (!has_function_body(op.domain, op.name, op.opset))
        problem(op.why_unsupported());
      else if (const onnx::FunctionProto* body = op.body())
        visit_function(node, *body, origin);
      else if (!inlines_)
        problem("it is a function of the types of its inputs, which is not inlined in a branch");
    }
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) visit_inner_graph(attribute.g(), origin);
      for (const onnx::GraphProto& graph : attribute.graphs()) visit_inner_graph(graph, origin);
    }
  }

  void visit_function(const onnx::NodeProto& call, const onnx::FunctionProto& body,
                      const std::string& origin) {
    if (!visited_.insert(function_key(call)).second) return;
    for (const onnx::NodeProto& inner : body.node()) visit(inner, origin);
  }

  void visit_inner_graph(const onnx::GraphProto& graph, const std::string& origin) {
    const bool inlines = std::exchange(inlines_, false);
    std::vector<Problem>* const outer = std::exchange(problems_of_place_, &inner_problems_);
    for (const onnx::NodeProto& inner : graph.node())
      visit(inner, inner.name().empty() ? origin : inner.name());
    problems_of_place_ = outer;
    inlines_ = inlines;
  }

  const Opsets& opsets_;
  bool inlines_ = true;  // functions that depend on types, which are known in the graph itself
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  std::set<std::string> visited_;
  std::vector<Problem> problems_, inner_problems_;  // inner: in graphs that are attributes of nodes
  std::vector<Problem>* problems_of_place_ = &problems_;
};

std::string text_of(const std::vector<Problem>& problems) {
  std::string lines;
  for (const Problem& p : problems) {
    lines += fmt::format("\n    {} (node '{}'", p.op, p.nodes.front());
    if (p.nodes.size() > 1) lines += fmt::format(" and {} more", p.nodes.size() - 1);
    lines += fmt::format("): {}", p.reason);
  }
  return fmt::format("{} operator{} not supported:{}", problems.size(),
                     problems.size() == 1 ? " is" : "s are", lines);
}

}  // namespace

UnsupportedOperators::UnsupportedOperators(const std::string& path, std::vector<UnsupportedOperator> list)
    : ir::UserError(errors::kUnsupportedOperators, {.file = path}, text_of(list),
                    "`braid ops` lists the supported operators with their versions and types"),
      list_(std::move(list)) {}

void add_unsupported(std::vector<UnsupportedOperator>& list, const UnsupportedOperator& problem) {
  for (Problem& known : list) {
    if (known.op != problem.op || known.reason != problem.reason) continue;
    known.nodes.insert(known.nodes.end(), problem.nodes.begin(), problem.nodes.end());
    return;
  }
  list.push_back(problem);
}

void refuse_unsupported(const std::string& path, const std::vector<UnsupportedOperator>& list) {
  throw UnsupportedOperators(path, list);
}

UnsupportedOperator unsupported_type(const onnx::NodeProto& node, int version, ir::DType dtype) {
  const Operator op{domain_of(node), node.op_type(), version};
  return {op.text(),
          fmt::format("not implemented for the element type {}", onnx_type_name(onnx_type_of(dtype))),
          {name_of(node)}};
}

void check_supported(const Model& model, const Opsets& opsets) {
  const SupportCheck check(model, opsets);
  if (!check.passed()) refuse_unsupported(model.path, check.all());
}

std::vector<UnsupportedOperator> unsupported_operators(const Model& model, const Opsets& opsets) {
  return SupportCheck(model, opsets).all();
}

void check_supported(const Model& model, const Opsets& opsets, const onnx::GraphProto& branch) {
  const SupportCheck check(opsets, branch);
  if (!check.passed()) refuse_unsupported(model.path, check.all());
}

}  // namespace braid::frontend
