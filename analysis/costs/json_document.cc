#include "analysis/costs/json_document.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace braid::analysis {
namespace {

constexpr std::size_t kMaxNesting = 64;

// One step of a JSON pointer (RFC 6901).
std::string step(std::string_view key) {
  std::string result = "/";
  for (char c : key) result += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return result;
}

// Walks over valid JSON text and notes where each value begins.
class OffsetScanner {
 public:
  OffsetScanner(std::string_view text, std::map<std::string, std::size_t>& offsets)
      : text_(text), offsets_(offsets) {}

  // Returns the offset of a repeated key, if there is one.
  std::optional<std::size_t> run() {
    value("");
    return duplicate_;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  std::string string() {
    const std::size_t begin = at_++;
    for (; text_[at_] != '"'; ++at_) at_ += text_[at_] == '\\' ? 1 : 0;
    ++at_;
    return nlohmann::json::parse(text_.substr(begin, at_ - begin)).get<std::string>();
  }
  void value(const std::string& pointer) {
    blanks();
    if (!offsets_.emplace(pointer, at_).second && !duplicate_) duplicate_ = at_;
    if (text_[at_] == '{' || text_[at_] == '[') {
      const bool object = text_[at_] == '{';
      std::size_t index = 0;
      for (++at_, blanks(); text_[at_] != '}' && text_[at_] != ']'; blanks()) {
        std::string key = std::to_string(index++);
        if (object) {
          key = string();
          blanks();
          ++at_;  // ':'
        }
        value(pointer + step(key));
        blanks();
        if (text_[at_] == ',') ++at_;
      }
      ++at_;
    } else if (text_[at_] == '"') {
      string();
    } else {
      while (at_ < text_.size() && std::string_view(",]} \t\r\n").find(text_[at_]) == std::string_view::npos)
        ++at_;
    }
  }

  std::string_view text_;
  std::map<std::string, std::size_t>& offsets_;
  std::size_t at_ = 0;
  std::optional<std::size_t> duplicate_;
};

bool too_deep(std::string_view text) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t k = 0; k < text.size(); ++k) {
    if (quoted) {
      if (text[k] == '\\')
        ++k;
      else if (text[k] == '"')
        quoted = false;
    } else if (text[k] == '"') {
      quoted = true;
    } else if (text[k] == '{' || text[k] == '[') {
      if (++depth > kMaxNesting) return true;
    } else if ((text[k] == '}' || text[k] == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

void JsonValue::fail(const std::string& message, const std::string& hint) const {
  ir::user_error(doc_->schema_code(), doc_->location(pointer_), message, hint);
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
    : text_(std::move(text)), file_(std::move(file)), schema_(schema) {
  if (text_.starts_with("\xEF\xBB\xBF")) text_.erase(0, 3);  // a byte order mark
  if (too_deep(text_)) ir::user_error(syntax, {.file = file_}, "nested too deeply");
  try {
    root_ = std::make_unique<const nlohmann::json>(nlohmann::json::parse(text_));
  } catch (const nlohmann::json::exception& e) {
    const auto* parse = dynamic_cast<const nlohmann::json::parse_error*>(&e);
    const std::size_t byte = parse ? parse->byte : 0;
    const std::string what = e.what();
    const std::size_t colon = what.find(": ", what.find("at line"));
    ir::user_error(syntax, location_of(byte > 0 ? byte - 1 : 0),
                   "not JSON: " + (colon == std::string::npos ? what : what.substr(colon + 2)));
  }
  if (const auto duplicate = OffsetScanner(text_, offsets_).run()) {
    ir::user_error(syntax, location_of(*duplicate), "the same key twice in one object");
  }
}

ir::Location JsonDocument::location(const std::string& pointer) const {
  const auto found = offsets_.find(pointer);
  return location_of(found == offsets_.end() ? 0 : found->second);
}

ir::Location JsonDocument::location_of(std::size_t offset) const {
  ir::Location result{.file = file_, .line = 1, .column = 1};
  for (std::size_t k = 0; k < std::min(offset, text_.size()); ++k) {
    result.column = text_[k] == '\n' ? 1 : result.column + 1;
    result.line += text_[k] == '\n' ? 1 : 0;
  }
  return result;
}

}  // namespace braid::analysis
