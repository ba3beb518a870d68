#include "frontend/check_definition.h"

#include <fmt/format.h>
#include <onnx/defs/data_type_utils.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <map>

#include "frontend/attribute_rules.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using onnx::OpSchema;

// As schemas write types: "tensor(float)", "seq(tensor(int64))".
std::string type_of(const Value& value) {
  if (value.empty_optional) return "an empty optional";
  const Value* element = &value;
  if (value.sequence) {
    if (value.sequence->empty()) return "an empty sequence";
    element = &value.sequence->front();
  }
  onnx::TypeProto type;
  type.mutable_tensor_type()->set_elem_type(onnx_type_of(element->dtype));
  const std::string& text = *onnx::Utils::DataTypeUtils::ToType(type);
  return value.sequence ? fmt::format("seq({})", text) : text;
}

bool accepts(const OpSchema::FormalParameter& formal, const std::string& type) {
  return std::any_of(formal.GetTypes().begin(), formal.GetTypes().end(), [&](const std::string* allowed) {
    if (*allowed == type || *allowed == fmt::format("optional({})", type)) return true;
    if (type == "an empty optional") return allowed->rfind("optional(", 0) == 0;
    return type == "an empty sequence" && allowed->rfind("seq(", 0) == 0;
  });
}

void check_types(const OpSchema& schema, OpContext& c) {
  const std::vector<OpSchema::FormalParameter>& formals = schema.inputs();
  std::map<std::string, std::pair<int, std::string>> bound;  // by type parameter: the first input that has it
  for (int k = 0; k < c.input_count(); ++k) {
    if (!c.has_input(k)) continue;
    if (formals.empty()) c.fail(errors::kInvalidNode, "the operator has no inputs");
    const OpSchema::FormalParameter& formal =
        formals[std::min(static_cast<std::size_t>(k), formals.size() - 1)];
    const std::string type = type_of(c.value(k));
    if (!accepts(formal, type))
      c.fail(errors::kTypeMismatch, fmt::format("input {} ('{}') is {}", k, formal.GetName(), type),
             "check the types of the node's inputs");
    if (!formal.GetIsHomogeneous() || c.value(k).empty_optional || c.value(k).sequence) continue;
    const auto [first, added] = bound.emplace(formal.GetTypeStr(), std::pair(k, type));
    if (!added && first->second.second != type)
      c.fail(errors::kTypeMismatch,
             fmt::format("input {} is {}, but input {} is {}", first->second.first, first->second.second, k,
                         type),
             "check the types of the node's inputs");
  }
}

}  // namespace

void check_definition(const onnx::NodeProto& node, OpContext& c) {
  const OpSchema* schema = onnx::OpSchemaRegistry::Schema(c.op_type(), c.version(), c.domain());
  if (schema == nullptr) return;
  const NodeFacts facts = {schema,
                           [&](const char* name) -> const onnx::AttributeProto* {
                             for (const onnx::AttributeProto& attribute : node.attribute()) {
                               if (attribute.name() == name) return &attribute;
                             }
                             return nullptr;
                           },
                           [&](std::size_t k) -> std::optional<int> {
                             if (!c.has_input(static_cast<int>(k))) return std::nullopt;
                             return c.rank(static_cast<int>(k));
                           },
                           static_cast<std::size_t>(node.input_size()),
                           static_cast<std::size_t>(node.output_size())};
  if (const std::optional<std::string> problem = attribute_problem(facts))
    c.fail(errors::kInvalidAttribute, *problem);
  check_types(*schema, c);
}

}  // namespace braid::frontend
