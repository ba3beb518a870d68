#include "ir/json_document.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace braid::ir {
namespace {

constexpr std::size_t kMaxLevels = 64;

// One step of a JSON pointer (RFC 6901).
std::string step(std::string_view key) {
  std::string result = "/";
  for (char c : key) result += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return result;
}

std::string without_byte_order_mark(std::string text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return text;
}

}  // namespace

void JsonValue::fail(const std::string& message, const std::string& hint) const {
  user_error(doc_->schema_code(), doc_->location(pointer_), message, hint);
}

double JsonValue::number(NumberRange range) const {
  if (!value_->is_number()) fail(fmt::format("'{}' is not a number", pointer_));
  const double v = value_->get<double>();
  if (!std::isfinite(v) || v < range.min || v > range.max) {
    fail(fmt::format("'{}' is {}, expected {} to {}", pointer_, v, range.min, range.max));
  }
  return v;
}

std::int64_t JsonValue::integer(std::int64_t min, std::int64_t max) const {
  if (!value_->is_number_integer()) fail(fmt::format("'{}' is not an integer", pointer_));
  const bool fits = !value_->is_number_unsigned() || value_->get<std::uint64_t>() <= INT64_MAX;
  const std::int64_t v = fits ? value_->get<std::int64_t>() : INT64_MAX;
  if (!fits || v < min || v > max) {
    fail(fmt::format("'{}' is {}, expected {} to {}", pointer_, value_->dump(), min, max));
  }
  return v;
}

const std::string& JsonValue::string() const {
  if (!value_->is_string()) fail(fmt::format("'{}' is not a string", pointer_));
  return value_->get_ref<const std::string&>();
}

bool JsonValue::boolean() const {
  if (!value_->is_boolean()) fail(fmt::format("'{}' is neither true nor false", pointer_));
  return value_->get<bool>();
}

std::vector<JsonValue> JsonValue::array() const {
  if (!value_->is_array()) fail(fmt::format("'{}' is not an array", pointer_));
  std::vector<JsonValue> result;
  for (std::size_t k = 0; k < value_->size(); ++k) {
    result.emplace_back(*doc_, pointer_ + '/' + std::to_string(k), (*value_)[k]);
  }
  return result;
}

JsonObject::JsonObject(const JsonValue& value) : JsonValue(value) {
  if (!value_->is_object())
    fail(pointer_.empty() ? "the file is not a JSON object" : fmt::format("'{}' is not an object", pointer_));
}

JsonValue JsonObject::value(const std::string& key) {
  std::optional<JsonValue> found = maybe(key);
  if (!found) fail(fmt::format("'{}' is missing", pointer_ + step(key)));
  return *found;
}

std::optional<JsonValue> JsonObject::maybe(const std::string& key) {
  known_.insert(key);
  const auto found = value_->find(key);
  if (found == value_->end()) return std::nullopt;
  return JsonValue(*doc_, pointer_ + step(key), *found);
}

std::vector<std::pair<std::string, JsonValue>> JsonObject::entries() {
  std::vector<std::pair<std::string, JsonValue>> result;
  for (const auto& [key, v] : value_->items()) {
    known_.insert(key);
    result.emplace_back(key, JsonValue(*doc_, pointer_ + step(key), v));
  }
  return result;
}

void JsonObject::finish() const {
  for (const auto& [key, v] : value_->items()) {
    if (known_.contains(key)) continue;
    std::string names;
    for (const std::string& name : known_) names += (names.empty() ? "" : ", ") + name;
    JsonValue(*doc_, pointer_ + step(key), v)
        .fail(fmt::format("'{}' is not known", pointer_ + step(key)), "known here: " + names);
  }
}

JsonDocument::~JsonDocument() = default;

JsonDocument::JsonDocument(std::string text, std::string file, int syntax, int schema)
    : text_(without_byte_order_mark(std::move(text))),
      scanner_(text_, file, kMaxLevels, syntax),
      schema_(schema) {
  if (scanner_.too_deep(text_)) user_error(syntax, {.file = file}, "nested too deeply");
  root_ = std::make_unique<const nlohmann::json>(scanner_.parse(text_));
  JsonScanner scanner = scanner_;
  find_offsets(scanner, "");
}

void JsonDocument::find_offsets(JsonScanner& scanner, const std::string& pointer) {
  const char first = scanner.peek();
  if (!offsets_.emplace(pointer, scanner.offset()).second)
    scanner.fail(scanner.offset(), "the same key twice in one object");
  if (first != '{' && first != '[') return (void)scanner.raw_value();
  const char last = first == '{' ? '}' : ']';
  scanner.expect(first);
  for (std::size_t index = 0; !scanner.take(last); ++index) {
    const std::string key = first == '{' ? scanner.string() : std::to_string(index);
    if (first == '{') scanner.expect(':');
    find_offsets(scanner, pointer + step(key));
    scanner.take(',');
  }
}

Location JsonDocument::location(const std::string& pointer) const {
  const auto found = offsets_.find(pointer);
  return scanner_.location(found == offsets_.end() ? 0 : found->second);
}

}  // namespace braid::ir
