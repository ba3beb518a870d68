#include "frontend/names_utf8.h"

#include <fmt/format.h>

#include <vector>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::frontend {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The string with an escape for each byte that is not printable ASCII.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c >= ' ' && c <= '~' ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

void check(const std::string& path, const Message& message) {
  if (message.GetDescriptor() == onnx::StringStringEntryProto::descriptor())
    return;  // notes, and paths of files
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool text = field->type() == FieldDescriptor::TYPE_STRING && field->name() != "doc_string";
    if (!text && field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int k = 0; k < count; ++k) {
      if (!text) {
        check(path, field->is_repeated() ? reflection.GetRepeatedMessage(message, field, k)
                                         : reflection.GetMessage(message, field));
        continue;
      }
      const std::string value = field->is_repeated() ? reflection.GetRepeatedString(message, field, k)
                                                     : reflection.GetString(message, field);
      if (is_utf8(value)) continue;
      ir::user_error(errors::kNotOnnx, {.file = path},
                     fmt::format("the {} '{}' of a {} is not UTF-8", std::string(field->name()),
                                 escaped(value), std::string(message.GetDescriptor()->name())),
                     "export the model again, with names in UTF-8");
    }
  }
}

}  // namespace

bool is_utf8(std::string_view text) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  for (std::size_t k = 0; k < text.size();) {
    const unsigned lead = byte(k);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xc2 ? 0  // a continuation, or a longer form of ASCII
                               : lead < 0xe0 ? 2
                               : lead < 0xf0 ? 3
                               : lead < 0xf5 ? 4
                                             : 0;
    if (length == 0 || text.size() - k < length) return false;
    for (std::size_t j = 1; j < length; ++j) {
      if ((byte(k + j) & 0xc0u) != 0x80) return false;
    }
    const unsigned second = length > 1 ? byte(k + 1) : 0;
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f))
      return false;
    k += length;
  }
  return true;
}

void check_names(const std::string& path, const onnx::ModelProto& model) { check(path, model); }

}  // namespace braid::frontend
