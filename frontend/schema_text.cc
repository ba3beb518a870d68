#include "frontend/schema_text.h"

#include <onnx/defs/schema.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/error.h"

namespace braid::frontend {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;
using Text = std::string_view;

Text trimmed(Text text) {
  constexpr Text kSpace = " \n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == Text::npos ? Text() : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// The parts of a list, without the space around them.
std::vector<Text> parts(Text list, char separator) {
  std::vector<Text> result;
  for (list = trimmed(list); !list.empty();) {
    const std::size_t end = std::min(list.find(separator), list.size());
    result.push_back(trimmed(list.substr(0, end)));
    list = trimmed(list.substr(std::min(end + 1, list.size())));
  }
  return result;
}

// Cuts a text in two at the first `mark`; the second part is empty if there is none.
std::pair<Text, Text> cut(Text text, Text mark) {
  const std::size_t at = text.find(mark);
  return at == Text::npos ? std::pair(text, Text())
                          : std::pair(text.substr(0, at), text.substr(at + mark.size()));
}

void add_operand(OpSchema& schema, Text text, int k, bool is_output) {
  const auto [type, name] = cut(text, " ");
  const bool optional = type.ends_with('?'), any = type.ends_with('*');
  const std::string type_name(type.substr(0, type.size() - (optional || any ? 1 : 0)));
  const auto option = optional ? OpSchema::Optional : any ? OpSchema::Variadic : OpSchema::Single;
  if (is_output) {
    schema.Output(k, std::string(name), "", type_name, option, !any);
  } else {
    schema.Input(k, std::string(name), "", type_name, option, !any);
  }
}

template <class T>
T number(Text text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  ir::internal_check(error == std::errc() && end == text.data() + text.size(), "'{}' is no number", text);
  return value;
}

void add_attribute(OpSchema& schema, Text text) {
  static const std::map<Text, AttributeProto::AttributeType> types = {
      {"int", AttributeProto::INT},       {"ints", AttributeProto::INTS},
      {"float", AttributeProto::FLOAT},   {"floats", AttributeProto::FLOATS},
      {"string", AttributeProto::STRING}, {"strings", AttributeProto::STRINGS}};
  const auto [head, value] = cut(text, " = ");
  if (value.empty()) {
    const auto [name, type] = cut(text, " ");
    const bool required = !type.ends_with('?');
    schema.Attr(std::string(name), "", types.at(type.substr(0, type.size() - (required ? 0 : 1))), required);
  } else if (value.front() == '"') {
    schema.Attr(std::string(head), "", AttributeProto::STRING,
                std::string(value.substr(1, value.size() - 2)));
  } else if (value.find_first_of(".e") != Text::npos) {
    schema.Attr(std::string(head), "", AttributeProto::FLOAT, number<float>(value));
  } else {
    schema.Attr(std::string(head), "", AttributeProto::INT, number<std::int64_t>(value));
  }
}

void add_types(OpSchema& schema, Text text) {
  static const std::map<Text, Text> sets = {
      {"values", "float double float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool"},
      {"floats", "float double float16 bfloat16"},
      {"narrow", "float float16 bfloat16"},
      {"bytes", "uint8 int8"},
      {"stored", "int8 uint8 int16 uint16 int4 uint4"}};
  const auto [name, list] = cut(text, " = ");
  std::vector<std::string> allowed;
  for (const Text word : parts(list, ' ')) {
    const auto set = sets.find(word);
    for (const Text type : parts(set == sets.end() ? word : set->second, ' '))
      allowed.push_back("tensor(" + std::string(type) + ")");
  }
  schema.TypeConstraint(std::string(name), allowed, "");
}

void register_schema(const char* domain, Text text, int version) {
  const auto [name, body] = cut(text, ": ");
  const auto [before_types, types] = cut(body, "\n  where ");
  const auto [operands, attributes] = cut(before_types, "\n  with ");
  const auto [inputs, outputs] = cut(operands, "->");
  OpSchema schema(std::string(name), __FILE__, __LINE__);
  schema.SetDomain(domain).SinceVersion(version);
  int k = 0;
  for (const Text input : parts(inputs, ',')) add_operand(schema, input, k++, false);
  k = 0;
  for (const Text output : parts(outputs, ',')) add_operand(schema, output, k++, true);
  for (const Text attribute : parts(attributes, ',')) add_attribute(schema, attribute);
  for (const Text set : parts(types, ';')) add_types(schema, set);
  onnx::RegisterSchema(std::move(schema));
}

}  // namespace

void register_schemas(const char* domain, std::string_view text, int version) {
  // A line without space in front begins an operator.
  std::size_t begin = text.find_first_not_of('\n');
  while (begin < text.size()) {
    std::size_t end = begin;
    do {
      end = std::min(text.find('\n', end + 1), text.size());
    } while (end + 1 < text.size() && text[end + 1] == ' ');
    register_schema(domain, text.substr(begin, end - begin), version);
    begin = text.find_first_not_of('\n', end);
  }
}

}  // namespace braid::frontend
