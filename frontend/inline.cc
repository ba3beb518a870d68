#include "frontend/inline.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <optional>
#include <unordered_set>

#include "frontend/foreign_text.h"
#include "frontend/functions.h"
#include "frontend/lower_graph.h"
#include "frontend/op_registry.h"
#include "ir/error_numbers.h"

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

bool is_body(const onnx::AttributeProto& attribute) { return attribute.has_g(); }

class Inliner {
 public:
  Inliner(Model& model, const DimBounds& dims, int ranks)
      : model_(model), graph_(*model.proto.mutable_graph()), dims_(dims), ranks_(ranks) {
    for (const onnx::FunctionProto& f : model.proto.functions()) functions_[function_key(f)] = f;
    for (const onnx::OperatorSetIdProto& import : model.proto.opset_import()) {
      opsets_[normal_domain(import.domain())] = static_cast<int>(import.version());
    }
  }

  bool run() {
    collect_names();
    inline_in(graph_, nullptr);
    model_.proto.clear_functions();
    if (depends_on_types(graph_)) {
      // Bodies that depend on context are built from the types of their inputs.
      rewrite_nodes(model_, opsets_, dims_, ranks_, [&](const onnx::NodeProto& node, const auto& value) {
        const TypeOf types = [&](const std::string& name) { return type_of(value(name)); };
        return expanded(node, &types);
      });
    }
    return any_;
  }

 private:
  using Nodes = std::vector<onnx::NodeProto>;
  using TypeOf = std::function<onnx::TypeProto(const std::string& value)>;

  // Replaces the calls of a graph and of the bodies in it, except, without `types`, those that depend on
  // types. Terminates: check_functions has refused recursion.
  void inline_in(onnx::GraphProto& graph, const TypeOf* types) {
    std::deque<onnx::NodeProto> next;
    for (onnx::NodeProto& node : *graph.mutable_node()) next.push_back(std::move(node));
    graph.clear_node();
    while (!next.empty()) {
      onnx::NodeProto node = std::move(next.front());
      next.pop_front();
      if (std::optional<Nodes> body = expanded(node, types)) {
        next.insert(next.begin(), std::make_move_iterator(body->begin()),
                    std::make_move_iterator(body->end()));
        continue;
      }
      for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
        if (is_body(attribute)) inline_in(*attribute.mutable_g(), types);
      }
      *graph.add_node() = std::move(node);
    }
  }

  int version(const std::string& domain) const {
    const auto found = opsets_.find(normal_domain(domain));
    return found == opsets_.end() ? 1 : found->second;
  }

  bool is_schema_call(const onnx::NodeProto& node) const {
    const std::string domain = normal_domain(node.domain());
    return !find_op(domain, node.op_type(), version(domain)) &&
           has_function_body(domain, node.op_type(), version(domain));
  }

  bool depends_on_types(const onnx::GraphProto& graph) const {
    return std::any_of(graph.node().begin(), graph.node().end(),
                       [&](const onnx::NodeProto& node) { return is_schema_call(node); });
  }

  void collect_names() {
    for (const onnx::ValueInfoProto& input : graph_.input()) names_.insert(input.name());
    for (const auto& [name, tensor] : model_.initializers) names_.insert(name);
    collect_names(graph_);
  }
  void collect_names(const onnx::GraphProto& graph) {
    for (const onnx::NodeProto& node : graph.node()) {
      names_.insert(node.output().begin(), node.output().end());
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (!is_body(attribute)) continue;
        for (const onnx::ValueInfoProto& input : attribute.g().input()) names_.insert(input.name());
        for (const onnx::TensorProto& weight : attribute.g().initializer()) names_.insert(weight.name());
        collect_names(attribute.g());
      }
    }
  }

  static onnx::TypeProto type_of(const Value* value) {
    onnx::TypeProto type;
    if (value == nullptr || value->empty_optional) return type;
    if (value->sequence) {
      onnx::TypeProto& element = *type.mutable_sequence_type()->mutable_elem_type();
      if (!value->sequence->empty()) element = type_of(&value->sequence->front());
      return type;
    }
    onnx::TypeProto_Tensor& tensor = *type.mutable_tensor_type();
    tensor.set_elem_type(onnx_type_of(value->dtype));
    for (const ir::Expr& size : value->sizes) {
      auto& dim = *tensor.mutable_shape()->add_dim();
      if (size.is_constant()) dim.set_dim_value(size.constant());
    }
    tensor.mutable_shape();
    return type;
  }

  // Returns the nodes of the function that the node calls. Without types: nullopt also where the body depends
  // on them.
  std::optional<Nodes> expanded(const onnx::NodeProto& node, const TypeOf* types) {
    if (const auto local = functions_.find(function_key(node)); local != functions_.end()) {
      import_opsets(node, local->second);
      return body_of(node, local->second);
    }
    if (!is_schema_call(node)) return std::nullopt;
    onnx::NodeProto call = node;
    add_defaults(call, *onnx::OpSchemaRegistry::Schema(node.op_type(), version(node.domain()),
                                                       normal_domain(node.domain())));
    const std::optional<onnx::FunctionProto> body = schema_body(call, types);
    if (!body) return std::nullopt;
    return body_of(call, *body);
  }

  std::optional<onnx::FunctionProto> schema_body(const onnx::NodeProto& call, const TypeOf* types) const {
    const int opset = version(call.domain());
    const onnx::OpSchema& schema =
        *onnx::OpSchemaRegistry::Schema(call.op_type(), opset, normal_domain(call.domain()));
    if (const onnx::FunctionProto* body = schema.GetFunction(opset, false)) return *body;
    if (types == nullptr) return std::nullopt;
    std::vector<onnx::TypeProto> inputs;
    for (const std::string& input : call.input()) inputs.push_back((*types)(input));
    onnx::FunctionProto body;
    try {
      if (schema.BuildContextDependentFunction(onnx::FunctionBodyBuildContextImpl(call, inputs), body, opset))
        return body;
    } catch (const std::exception& error) {
      user_error(errors::kUnsupportedForm, location_of(model_.path, call),
                 fmt::format("its function body cannot be built: {}", foreign_text(error)));
    }
    user_error(errors::kUnsupportedForm, location_of(model_.path, call),
               "ONNX has no function body for this form of the operator");
  }

  // A function's operator sets become the model's. One graph cannot have two versions of a domain, so all
  // operators of the function must be the same in both.
  void import_opsets(const onnx::NodeProto& node, const onnx::FunctionProto& function) {
    for (const onnx::OperatorSetIdProto& import : function.opset_import()) {
      const auto [known, added] =
          opsets_.emplace(normal_domain(import.domain()), static_cast<int>(import.version()));
      if (added) {
        *model_.proto.add_opset_import() = import;
      } else if (known->second != import.version()) {
        const onnx::NodeProto* other = changed_node(function.node(), import, known->second);
        if (other == nullptr) continue;
        user_error(
            errors::kOpset, location_of(model_.path, node),
            fmt::format("the function imports version {} of operator set '{}', the model version {}, and "
                        "its {} differs between them",
                        import.version(), import.domain().empty() ? "ai.onnx" : import.domain(),
                        known->second, other->op_type()),
            "export function and model for the same operator set");
      }
    }
  }

  // The first node whose operator has another definition in `version` of a domain than in the imported one;
  // nullptr: none.
  const onnx::NodeProto* changed_node(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                                      const onnx::OperatorSetIdProto& import, int version) const {
    const std::string domain = normal_domain(import.domain());
    const auto definition = [&](const onnx::NodeProto& node, std::int64_t of) {
      return onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(of), domain);
    };
    for (const onnx::NodeProto& node : nodes) {
      const bool calls = functions_.count(function_key(node)) > 0;  // which has imports of its own
      if (!calls && normal_domain(node.domain()) == domain &&
          definition(node, import.version()) != definition(node, version))
        return &node;
      for (const onnx::AttributeProto& attribute : node.attribute()) {
        if (!is_body(attribute)) continue;
        if (const auto* inner = changed_node(attribute.g().node(), import, version)) return inner;
      }
    }
    return nullptr;
  }

  Nodes body_of(const onnx::NodeProto& call, const onnx::FunctionProto& body) {
    any_ = true;
    Nodes nodes;
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
    for (const onnx::NodeProto& inner : body.node())
      nodes.push_back(renamed_node(inner, prefix, renamed, attributes));
    // An output that is an input, or one value returned twice.
    for (int k = 0; k < std::min(body.output_size(), call.output_size()); ++k) {
      const std::string& source = renamed[body.output(k)];
      if (call.output(k).empty() || source == call.output(k)) continue;
      onnx::NodeProto& copy = nodes.emplace_back();
      copy.set_op_type("Identity");
      copy.set_name(prefix + "Identity");
      copy.add_input(source);
      copy.add_output(call.output(k));
    }
    return nodes;
  }

  onnx::NodeProto renamed_node(
      const onnx::NodeProto& inner, const std::string& prefix,
      std::unordered_map<std::string, std::string>& renamed,
      const std::unordered_map<std::string, const onnx::AttributeProto*>& attributes) {
    onnx::NodeProto node = inner;
    node.set_name(prefix + (inner.name().empty() ? inner.op_type() : inner.name()));
    for (std::string& input : *node.mutable_input()) {
      const auto found = renamed.find(input);
      if (found == renamed.end()) {
        user_error(errors::kUndefinedValue, location_of(model_.path, node),
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
      if (is_body(attribute)) rename_branch(*attribute.mutable_g(), prefix, renamed, attributes);
    }
    return node;
  }

  using AttributeMap = std::unordered_map<std::string, const onnx::AttributeProto*>;

  // Replaces references to the function's attributes by those of the call, and drops those that the call
  // lacks.
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

  // A graph inside a function's node reads the function's values by name; values that it defines get new
  // names.
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
  const DimBounds& dims_;
  int ranks_;
  bool any_ = false;
  std::unordered_map<std::string, onnx::FunctionProto> functions_;
  Opsets opsets_;
  std::unordered_set<std::string> names_;        // of values
  std::unordered_map<std::string, int> copies_;  // by wanted name: the number of further copies
};

}  // namespace

bool has_function_body(const std::string& domain, const std::string& name, int version) {
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(name, version, domain);
  return schema && (schema->GetFunction(version, false) != nullptr || schema->HasContextDependentFunction());
}

bool inline_functions(Model& model, const DimBounds& dims, int ranks) {
  return Inliner(model, dims, ranks).run();
}

}  // namespace braid::frontend
