#include "frontend/inline.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <unordered_set>

#include "frontend/errors.h"
#include "frontend/foreign_text.h"
#include "frontend/functions.h"
#include "frontend/op_registry.h"

namespace braid::frontend {

using ir::user_error;

namespace {

std::string normal_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

void add_defaults(onnx::NodeProto& node, const onnx::OpSchema& schema) {
  for (const auto& [name, attribute] : schema.attributes()) {
    const bool given = std::any_of(node.attribute().begin(), node.attribute().end(),
                                   [&](const auto& a) { return a.name() == name; });
    if (given || attribute.default_value.name().empty()) continue;
    *node.add_attribute() = attribute.default_value;
  }
}

class Inliner {
 public:
  explicit Inliner(Model& model) : model_(model), graph_(*model.proto.mutable_graph()) {
    for (const onnx::FunctionProto& f : model.proto.functions()) functions_[function_key(f)] = f;
    for (const onnx::OperatorSetIdProto& import : model.proto.opset_import()) {
      opsets_[normal_domain(import.domain())] = static_cast<int>(import.version());
    }
  }

  bool run() {
    bool any = false;
    while (has_calls()) {  // terminates: check_functions has refused recursion
      collect_names();
      // Bodies that depend on context are built from the types of their inputs.
      if (add_all_defaults()) infer_shapes(model_);
      types_ = types_of(model_);
      google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
      nodes.Swap(graph_.mutable_node());
      for (onnx::NodeProto& node : nodes) {
        if (std::optional<onnx::FunctionProto> body = body_of(node)) {
          expand(std::move(node), *body);
        } else {
          *graph_.add_node() = std::move(node);
        }
      }
      any = true;
    }
    model_.proto.clear_functions();
    return any;
  }

 private:
  int version(const std::string& domain) const {
    const auto found = opsets_.find(normal_domain(domain));
    return found == opsets_.end() ? 1 : found->second;
  }

  bool is_local_call(const onnx::NodeProto& node) const { return functions_.count(function_key(node)) > 0; }
  bool is_schema_call(const onnx::NodeProto& node) const {
    const std::string domain = normal_domain(node.domain());
    return !find_op(domain, node.op_type(), version(domain)) &&
           has_function_body(domain, node.op_type(), version(domain));
  }

  bool has_calls() const {
    return std::any_of(graph_.node().begin(), graph_.node().end(),
                       [&](const auto& n) { return is_local_call(n) || is_schema_call(n); });
  }
  // ONNX's inference enters the bodies too, and would miss the defaults as well. Returns whether there is a schema
  // call.
  bool add_all_defaults() {
    bool any = false;
    for (onnx::NodeProto& node : *graph_.mutable_node()) {
      if (is_local_call(node) || !is_schema_call(node)) continue;
      add_defaults(node, *onnx::OpSchemaRegistry::Schema(node.op_type(), version(node.domain()),
                                                         normal_domain(node.domain())));
      any = true;
    }
    return any;
  }

  void collect_names() {
    names_.clear();
    for (const onnx::ValueInfoProto& input : graph_.input()) names_.insert(input.name());
    for (const auto& [name, tensor] : model_.initializers) names_.insert(name);
    for (const onnx::NodeProto& node : graph_.node()) {
      for (const std::string& output : node.output()) names_.insert(output);
    }
  }

  std::optional<onnx::FunctionProto> body_of(onnx::NodeProto& node) {
    if (const auto local = functions_.find(function_key(node)); local != functions_.end()) {
      import_opsets(node, local->second);
      return local->second;
    }
    if (!is_schema_call(node)) return std::nullopt;
    const int opset = version(node.domain());
    std::optional<onnx::FunctionProto> body;
    try {
      body = schema_function_body(node, opset, types_);
    } catch (const std::runtime_error& error) {
      user_error(kUnsupportedForm, location_of(model_.path, node),
                 fmt::format("its function body cannot be built: {}", foreign_text(error)));
    }
    if (!body) {
      user_error(kUnsupportedForm, location_of(model_.path, node),
                 "ONNX has no function body for this form of the operator");
    }
    return body;
  }

  // A function's operator sets become the model's; one graph cannot have two versions of a domain.
  void import_opsets(const onnx::NodeProto& node, const onnx::FunctionProto& function) {
    for (const onnx::OperatorSetIdProto& import : function.opset_import()) {
      const auto [known, added] =
          opsets_.emplace(normal_domain(import.domain()), static_cast<int>(import.version()));
      if (added) {
        *model_.proto.add_opset_import() = import;
      } else if (known->second != import.version()) {
        user_error(kOpset, location_of(model_.path, node),
                   fmt::format("the function imports version {} of operator set '{}', the model version {}",
                               import.version(), import.domain().empty() ? "ai.onnx" : import.domain(),
                               known->second),
                   "export function and model for the same operator set");
      }
    }
  }

  void expand(onnx::NodeProto call, const onnx::FunctionProto& body) {
    const std::string prefix = name_of(call) + "/";
    std::unordered_map<std::string, std::string> renamed{{"", ""}};
    for (int k = 0; k < body.input_size(); ++k)
      renamed[body.input(k)] = k < call.input_size() ? call.input(k) : "";
    // Unused outputs get inner names, like all other inner values.
    for (int k = 0; k < body.output_size(); ++k) {
      if (k < call.output_size() && !call.output(k).empty() && !renamed.count(body.output(k)))
        renamed[body.output(k)] = call.output(k);
    }
    std::unordered_map<std::string, const onnx::AttributeProto*> attributes;
    for (const onnx::AttributeProto& a : body.attribute_proto()) attributes[a.name()] = &a;
    for (const onnx::AttributeProto& a : call.attribute()) attributes[a.name()] = &a;
    for (const onnx::NodeProto& inner : body.node()) add_inner(inner, prefix, renamed, attributes);
    // An output that is an input, or one value returned twice.
    for (int k = 0; k < std::min(body.output_size(), call.output_size()); ++k) {
      const std::string& source = renamed[body.output(k)];
      if (call.output(k).empty() || source == call.output(k)) continue;
      onnx::NodeProto& copy = *graph_.add_node();
      copy.set_op_type("Identity");
      copy.set_name(prefix + "Identity");
      copy.add_input(source);
      copy.add_output(call.output(k));
    }
  }

  void add_inner(const onnx::NodeProto& inner, const std::string& prefix,
                 std::unordered_map<std::string, std::string>& renamed,
                 const std::unordered_map<std::string, const onnx::AttributeProto*>& attributes) {
    onnx::NodeProto node = inner;
    node.set_name(prefix + (inner.name().empty() ? inner.op_type() : inner.name()));
    for (std::string& input : *node.mutable_input()) {
      const auto found = renamed.find(input);
      if (found == renamed.end()) {
        user_error(kUndefinedValue, location_of(model_.path, node),
                   fmt::format("the input '{}' is not defined in the function", input),
                   "it is not an input of the function or the output of one of its nodes");
      }
      input = found->second;
    }
    for (std::string& output : *node.mutable_output()) {
      if (output.empty()) continue;
      const auto [found, added] = renamed.emplace(output, "");
      if (added) found->second = fresh(prefix + output);
      output = found->second;
    }
    bind_attributes(node, attributes);
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) rename_branch(*attribute.mutable_g(), prefix, renamed, attributes);
    }
    *graph_.add_node() = std::move(node);
  }

  using AttributeMap = std::unordered_map<std::string, const onnx::AttributeProto*>;

  // Replaces references to the function's attributes by those of the call, and drops those that the call lacks.
  static void bind_attributes(onnx::NodeProto& node, const AttributeMap& attributes) {
    google::protobuf::RepeatedPtrField<onnx::AttributeProto> bound;
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.ref_attr_name().empty()) {
        *bound.Add() = std::move(attribute);
      } else if (const auto found = attributes.find(attribute.ref_attr_name()); found != attributes.end()) {
        onnx::AttributeProto& copy = *bound.Add();
        copy = *found->second;
        copy.set_name(attribute.name());
      }
    }
    node.mutable_attribute()->Swap(&bound);
  }

  // A graph inside a function's node reads the function's values by name; values that it defines get new names.
  void rename_branch(onnx::GraphProto& branch, const std::string& prefix,
                     std::unordered_map<std::string, std::string> renamed, const AttributeMap& attributes) {
    const auto define = [&](std::string* name) {
      if (!name->empty()) *name = renamed[*name] = fresh(prefix + *name);
    };
    const auto use = [&](std::string* name) {
      if (const auto found = renamed.find(*name); found != renamed.end()) *name = found->second;
    };
    for (onnx::ValueInfoProto& input : *branch.mutable_input()) define(input.mutable_name());
    for (onnx::TensorProto& initializer : *branch.mutable_initializer()) define(initializer.mutable_name());
    for (onnx::NodeProto& node : *branch.mutable_node()) {
      for (std::string& input : *node.mutable_input()) use(&input);
      for (std::string& output : *node.mutable_output()) define(&output);
      node.set_name(prefix + (node.name().empty() ? node.op_type() : node.name()));
      bind_attributes(node, attributes);
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) rename_branch(*attribute.mutable_g(), prefix, renamed, attributes);
      }
    }
    for (onnx::ValueInfoProto& output : *branch.mutable_output()) use(output.mutable_name());
    branch.clear_value_info();
  }

  std::string fresh(const std::string& wanted) {
    std::string name = wanted;
    if (names_.insert(name).second) return name;
    for (int& k = copies_[wanted]; !names_.insert(name).second;) name = fmt::format("{}.{}", wanted, ++k);
    return name;
  }

  Model& model_;
  onnx::GraphProto& graph_;
  std::unordered_map<std::string, onnx::FunctionProto> functions_;
  std::unordered_map<std::string, int> opsets_;
  InferredTypes types_;
  std::unordered_set<std::string> names_;        // of values
  std::unordered_map<std::string, int> copies_;  // by wanted name: the number of further copies
};

}  // namespace

bool has_function_body(const std::string& domain, const std::string& name, int version) {
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(name, version, domain);
  return schema && (schema->GetFunction(version, false) != nullptr || schema->HasContextDependentFunction());
}

std::optional<onnx::FunctionProto> schema_function_body(onnx::NodeProto node, int version,
                                                        const InferredTypes& types) {
  const onnx::OpSchema& schema =
      *onnx::OpSchemaRegistry::Schema(node.op_type(), version, normal_domain(node.domain()));
  if (const onnx::FunctionProto* body = schema.GetFunction(version, false)) return *body;
  add_defaults(node, schema);
  std::vector<onnx::TypeProto> inputs;
  for (const std::string& input : node.input()) {
    const auto found = types.find(input);
    inputs.push_back(found == types.end() ? onnx::TypeProto() : *found->second);
  }
  onnx::FunctionProto body;
  if (!schema.BuildContextDependentFunction(onnx::FunctionBodyBuildContextImpl(node, inputs), body, version))
    return std::nullopt;
  return body;
}

bool inline_functions(Model& model) { return Inliner(model).run(); }

}  // namespace braid::frontend
