#include "tests/frontend/attribute_cases.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "frontend/op_registry.h"
#include "frontend/schemas.h"

namespace braid::frontend {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;

const std::vector<std::vector<std::int64_t>> kSizes = {{2, 3, 4}, {1, 4, 4, 4}, {4}, {}, {3, 3}};
constexpr int kForms = 2 * 5;  // sizes, and with optional inputs or without

constexpr std::int64_t kInts[] = {std::numeric_limits<std::int64_t>::min(),
                                  -(std::int64_t{1} << 31) - 1,
                                  -(std::int64_t{1} << 31),
                                  -1000,
                                  -2,
                                  -1,
                                  0,
                                  2,
                                  3,
                                  1000,
                                  std::int64_t{1} << 31,
                                  std::int64_t{1} << 32,
                                  (std::int64_t{1} << 32) + 1,
                                  std::numeric_limits<std::int64_t>::max()};
constexpr int kIntCount = static_cast<int>(std::size(kInts));
constexpr float kFloats[] = {-1.0f, 0.0f, std::numeric_limits<float>::max(),
                             std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
constexpr int kFloatCount = static_cast<int>(std::size(kFloats));
constexpr int kManyEntries = 100'000;
constexpr AttributeProto::AttributeType kTypes[] = {
    AttributeProto::INT,        AttributeProto::FLOAT,        AttributeProto::STRING, AttributeProto::INTS,
    AttributeProto::FLOATS,     AttributeProto::STRINGS,      AttributeProto::TENSOR, AttributeProto::GRAPH,
    AttributeProto::TYPE_PROTO, AttributeProto::SPARSE_TENSOR};
constexpr int kTypeCount = static_cast<int>(std::size(kTypes));

std::vector<std::string> strings() { return {"", "bogus", "\xff\xfe", std::string(kManyEntries, 'a')}; }

void fill_tensor(onnx::TensorProto& tensor, int k) {
  tensor.set_data_type(k == 3 ? 99 : onnx::TensorProto::FLOAT);
  if (k == 0) tensor.add_dims(-1);
  if (k == 1) {
    tensor.add_dims(std::int64_t{1} << 40);
    tensor.add_dims(std::int64_t{1} << 40);
  }
  if (k == 2) tensor.add_dims(std::int64_t{1} << 31);
  if (k == 4) {
    for (int d = 0; d < 1000; ++d) tensor.add_dims(1);
    tensor.add_float_data(1);
  }
}

// Returns the k-th attribute of the right type; nullopt beyond the last.
std::optional<AttributeProto> right_type(const std::string& name, AttributeProto::AttributeType type, int k) {
  AttributeProto a;
  a.set_name(name);
  a.set_type(type);
  switch (type) {
    case AttributeProto::INT:
      if (k >= kIntCount) return std::nullopt;
      a.set_i(kInts[k]);
      return a;
    case AttributeProto::INTS:
      // No entry, many, each number alone, then as the last of as many as there are axes.
      if (k >= 2 + 2 * kIntCount) return std::nullopt;
      if (k == 1) {
        for (int n = 0; n < kManyEntries; ++n) a.add_ints(n);
      } else if (k >= 2) {
        if (k >= 2 + kIntCount) a.add_ints(1), a.add_ints(1);
        a.add_ints(kInts[(k - 2) % kIntCount]);
      }
      return a;
    case AttributeProto::FLOAT:
      if (k >= kFloatCount) return std::nullopt;
      a.set_f(kFloats[k]);
      return a;
    case AttributeProto::FLOATS:
      if (k >= 2 + kFloatCount) return std::nullopt;
      for (int n = 0; k == 1 && n < kManyEntries; ++n) a.add_floats(0);
      if (k >= 2) a.add_floats(kFloats[k - 2]);
      return a;
    case AttributeProto::STRING:
      if (k >= static_cast<int>(strings().size())) return std::nullopt;
      a.set_s(strings()[static_cast<std::size_t>(k)]);
      return a;
    case AttributeProto::STRINGS:
      if (k >= 2 + static_cast<int>(strings().size())) return std::nullopt;
      for (int n = 0; k == 1 && n < kManyEntries; ++n) a.add_strings("");
      if (k >= 2) a.add_strings(strings()[static_cast<std::size_t>(k - 2)]);
      return a;
    case AttributeProto::TENSOR:
      if (k >= 5) return std::nullopt;
      fill_tensor(*a.mutable_t(), k);
      return a;
    case AttributeProto::SPARSE_TENSOR:
      if (k >= 5) return std::nullopt;
      fill_tensor(*a.mutable_sparse_tensor()->mutable_values(), k);
      fill_tensor(*a.mutable_sparse_tensor()->mutable_indices(), k);
      a.mutable_sparse_tensor()->add_dims(std::int64_t{1} << 40);
      return a;
    case AttributeProto::GRAPH:
      if (k >= 3) return std::nullopt;
      a.mutable_g()->set_name("body");
      for (int n = 0; n < (k == 0 ? 0 : k == 1 ? 1 : 100); ++n) {
        const std::string value = fmt::format("body_{}", n);
        a.mutable_g()->add_input()->set_name(value);
        a.mutable_g()->add_output()->set_name(value);
      }
      return a;
    case AttributeProto::TYPE_PROTO:
      if (k >= 2) return std::nullopt;
      a.mutable_tp();
      if (k == 1) a.mutable_tp()->mutable_tensor_type()->set_elem_type(99);
      return a;
    default:
      return std::nullopt;
  }
}

// Out of range, then of another type.
std::optional<AttributeProto> value_of(const std::string& name, AttributeProto::AttributeType type, int k) {
  int own = 0;
  while (right_type(name, type, own)) ++own;
  if (k < own) return right_type(name, type, k);
  k -= own;
  if (k >= kTypeCount) return std::nullopt;
  return right_type(name, kTypes[k], 0);
}

// Something that the operator may well accept.
AttributeProto plain_value(const std::string& name, AttributeProto::AttributeType type) {
  AttributeProto a;
  a.set_name(name);
  a.set_type(type);
  a.set_i(type == AttributeProto::INT ? 1 : 0);
  if (type == AttributeProto::INTS) a.add_ints(1), a.add_ints(1);
  if (type == AttributeProto::FLOATS) a.add_floats(1);
  if (type == AttributeProto::STRING) a.set_s(name == "equation" ? "...->..." : "none");
  if (type == AttributeProto::STRINGS) a.add_strings("none");
  if (type == AttributeProto::TENSOR) {
    a.mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
    a.mutable_t()->add_float_data(1);
  }
  if (type == AttributeProto::GRAPH) a.mutable_g()->set_name("body");
  return a;
}

// An element type that the operator takes there; 0: no tensor.
int element_type(const OpSchema::FormalParameter& parameter) {
  int first = 0;
  for (const auto& [text, type] : {std::pair("tensor(float)", onnx::TensorProto::FLOAT),
                                   {"tensor(int64)", onnx::TensorProto::INT64},
                                   {"tensor(int32)", onnx::TensorProto::INT32},
                                   {"tensor(bool)", onnx::TensorProto::BOOL},
                                   {"tensor(uint8)", onnx::TensorProto::UINT8},
                                   {"tensor(string)", onnx::TensorProto::STRING}}) {
    const auto& types = parameter.GetTypes();
    const bool allowed = std::any_of(types.begin(), types.end(), [&](const auto* t) { return *t == text; });
    if (allowed && first == 0) first = type;
  }
  return first;
}

const OpSchema& schema_of(const AttributeCase& c) {
  const std::size_t dot = c.op.rfind('.');
  return *onnx::OpSchemaRegistry::Schema(c.op.substr(dot + 1), c.version, c.op.substr(0, dot));
}

void declare(onnx::ValueInfoProto& value, const std::string& name, int type,
             const std::vector<std::int64_t>& sizes) {
  value.set_name(name);
  value.mutable_type()->mutable_tensor_type()->set_elem_type(type);
  auto& shape = *value.mutable_type()->mutable_tensor_type()->mutable_shape();
  for (const std::int64_t s : sizes) shape.add_dim()->set_dim_value(s);
}

// Floats come from outside; integers, which may be sizes or axes, are constants.
void add_inputs(const AttributeCase& c, const OpSchema& schema, onnx::GraphProto& graph,
                onnx::NodeProto& node) {
  const std::vector<std::int64_t>& sizes = kSizes[static_cast<std::size_t>(c.form / 2)];
  const bool optional = c.form % 2 != 0;
  const auto& formals = schema.inputs();
  const int count = std::max(schema.min_input(), optional ? static_cast<int>(formals.size()) + 1 : 0);
  for (int k = 0; k < std::min(count, schema.max_input()); ++k) {
    const int type =
        element_type(formals[std::min<std::size_t>(static_cast<std::size_t>(k), formals.size() - 1)]);
    const std::string name = fmt::format("x{}", k);
    node.add_input(type == 0 ? "" : name);
    if (type == 0) continue;
    if (type != onnx::TensorProto::INT64) {
      declare(*graph.add_input(), name, type, sizes);
      continue;
    }
    onnx::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    const auto rank = static_cast<std::int64_t>(sizes.size());
    tensor.add_dims(rank);
    for (std::int64_t n = 0; n < rank; ++n) tensor.add_int64_data(n % 2);
  }
}

}  // namespace

std::string AttributeCase::text() const {
  static const char* const kPlaces[] = {"the graph", "a branch", "a function"};
  return fmt::format("{} of opset {}, form {}, attribute {}, value {}, in {}", op, version, form, attribute,
                     value, kPlaces[static_cast<int>(place)]);
}

std::vector<AttributeCase> attribute_cases() {
  register_schemas();
  std::vector<AttributeCase> cases;
  std::vector<OpSchema> schemas = onnx::OpSchemaRegistry::get_all_schemas_with_history();
  std::sort(schemas.begin(), schemas.end(), [](const OpSchema& a, const OpSchema& b) {
    return std::tuple(a.domain(), a.Name(), a.SinceVersion()) <
           std::tuple(b.domain(), b.Name(), b.SinceVersion());
  });
  for (const OpSchema& schema : schemas) {
    if (schema.Deprecated() || schema.SinceVersion() > kNewestOpset) continue;
    for (const auto& [name, declared] : schema.attributes()) {
      for (int value = 0; value_of(name, declared.type, value); ++value) {
        for (int form = 0; form < kForms; ++form) {
          for (const Place place : {Place::graph, Place::branch, Place::function}) {
            cases.push_back(
                {schema.domain() + "." + schema.Name(), schema.SinceVersion(), form, name, value, place});
          }
        }
      }
    }
  }
  return cases;
}

onnx::ModelProto model_of(const AttributeCase& c) {
  const OpSchema& schema = schema_of(c);
  onnx::ModelProto model;
  model.set_ir_version(8);
  const auto import = [&](const std::string& domain, int version) {
    onnx::OperatorSetIdProto& set = *model.add_opset_import();
    set.set_domain(domain);
    set.set_version(version);
  };
  // Branches and functions need no more than version 1 has; functions are the model's own domain.
  import("", schema.domain().empty() ? c.version : kNewestOpset);
  if (!schema.domain().empty()) import(schema.domain(), c.version);
  import("local", 1);

  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("main");
  onnx::NodeProto node;
  node.set_op_type(schema.Name());
  node.set_domain(schema.domain());
  add_inputs(c, schema, graph, node);
  const int outputs = std::max(1, std::min(schema.max_output(), static_cast<int>(schema.outputs().size())));
  for (int k = 0; k < outputs; ++k) node.add_output(fmt::format("y{}", k));
  std::optional<AttributeProto> changed;
  for (const auto& [name, declared] : schema.attributes()) {
    if (name == c.attribute) {
      changed = value_of(name, declared.type, c.value);
      *node.add_attribute() = *changed;
    } else if (declared.required) {
      *node.add_attribute() = plain_value(name, declared.type);
    }
  }
  // Graph outputs need a type: the sizes of what the node makes have one whatever it makes.
  const auto return_shapes = [&](const char* prefix) {
    for (int k = 0; k < outputs; ++k) {
      onnx::NodeProto& shape = *graph.add_node();
      shape.set_op_type("Shape");
      shape.add_input(fmt::format("{}{}", prefix, k));
      shape.add_output(fmt::format("sizes{}", k));
      declare(*graph.add_output(), shape.output(0), onnx::TensorProto::INT64, {});
      graph.mutable_output(k)
          ->mutable_type()
          ->mutable_tensor_type()
          ->mutable_shape()
          ->add_dim()
          ->set_dim_param(fmt::format("rank{}", k));
    }
  };

  if (c.place == Place::graph) {
    *graph.add_node() = node;
    return_shapes("y");
  } else if (c.place == Place::branch) {
    onnx::TensorProto& condition = *graph.add_initializer();
    condition.set_name("no");
    condition.set_data_type(onnx::TensorProto::BOOL);
    condition.add_int32_data(0);
    onnx::NodeProto& choice = *graph.add_node();
    choice.set_op_type("If");
    choice.add_input("no");
    for (int k = 0; k < outputs; ++k) choice.add_output(fmt::format("z{}", k));
    for (const char* name : {"then_branch", "else_branch"}) {
      AttributeProto& branch = *choice.add_attribute();
      branch.set_name(name);
      branch.set_type(AttributeProto::GRAPH);
      branch.mutable_g()->set_name(name);
      *branch.mutable_g()->add_node() = node;
      for (const std::string& output : node.output()) branch.mutable_g()->add_output()->set_name(output);
    }
    return_shapes("z");
  } else {
    onnx::FunctionProto& function = *model.add_functions();
    function.set_domain("local");
    function.set_name("f");
    for (const onnx::OperatorSetIdProto& set : model.opset_import()) *function.add_opset_import() = set;
    for (const std::string& input : node.input()) {
      if (!input.empty()) function.add_input(input);
    }
    for (const std::string& output : node.output()) function.add_output(output);
    function.add_attribute(c.attribute);
    onnx::NodeProto& call = *graph.add_node();
    call.set_domain("local");
    call.set_op_type("f");
    *call.mutable_input() = function.input();
    *call.mutable_output() = node.output();
    *call.add_attribute() = *changed;
    for (AttributeProto& a : *node.mutable_attribute()) {
      if (a.name() != c.attribute) continue;
      const auto type = schema.attributes().at(a.name()).type;
      a.Clear();
      a.set_name(c.attribute);
      a.set_type(type);
      a.set_ref_attr_name(c.attribute);
    }
    *function.add_node() = node;
    return_shapes("y");
  }
  return model;
}

}  // namespace braid::frontend
