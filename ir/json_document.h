// Our JSON files (machine descriptions, cost files), read strictly: every error names the file, line and
// column of the mistake, and unknown keys are refused.
//
//   JsonDocument doc(text, "h100.json", 550, 551);      // 550: not JSON; 551: JSON, but not what is expected
//   JsonObject root = doc.object();
//   double gb_s = root.number("memory_gb_s", {1, 1e6});
//   root.finish();                                      // refuses keys that were not read
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/json_scanner.h"

namespace braid::ir {

class JsonDocument;

// Both ends inclusive.
struct NumberRange {
  double min = 0;
  double max = 1e18;
};

// A value within a document; keeps a reference to it.
class JsonValue {
 public:
  JsonValue(const JsonDocument& doc, std::string pointer, const nlohmann::json& value)
      : doc_(&doc), pointer_(std::move(pointer)), value_(&value) {}

  double number(NumberRange range = {}) const;
  std::int64_t integer(std::int64_t min, std::int64_t max) const;
  const std::string& string() const;
  bool boolean() const;
  std::vector<JsonValue> array() const;
  // A user error at this value.
  [[noreturn]] void fail(const std::string& message, const std::string& hint = {}) const;

 protected:
  const JsonDocument* doc_;
  std::string pointer_;
  const nlohmann::json* value_;
};

class JsonObject : public JsonValue {
 public:
  explicit JsonObject(const JsonValue& value);  // user error if it is not an object

  // Refuse a missing key.
  JsonValue value(const std::string& key);
  JsonObject object(const std::string& key) { return JsonObject(value(key)); }
  double number(const std::string& key, NumberRange range = {}) { return value(key).number(range); }
  std::int64_t integer(const std::string& key, std::int64_t min, std::int64_t max) {
    return value(key).integer(min, max);
  }
  const std::string& string(const std::string& key) { return value(key).string(); }

  std::optional<JsonValue> maybe(const std::string& key);
  // All keys in alphabetical order, for objects that are tables; finish() then accepts them all.
  std::vector<std::pair<std::string, JsonValue>> entries();
  // Refuses keys that were not asked for.
  void finish() const;

 private:
  std::set<std::string> known_;
};

class JsonDocument {
 public:
  // Throws the user error `syntax` if the text is not JSON or an object has a key twice; all other errors are
  // `schema`.
  JsonDocument(std::string text, std::string file, int syntax, int schema);
  JsonDocument(const JsonDocument&) = delete;
  ~JsonDocument();

  JsonObject object() const { return JsonObject(JsonValue(*this, "", *root_)); }
  Location location(const std::string& pointer) const;
  int schema_code() const { return schema_; }

 private:
  // Notes where the value at `scanner` and each value within it begin. Refuses repeated keys.
  void find_offsets(JsonScanner& scanner, const std::string& pointer);

  std::string text_;
  JsonScanner scanner_;
  int schema_;
  std::unique_ptr<const nlohmann::json> root_;
  std::map<std::string, std::size_t> offsets_;  // JSON pointer -> byte at which the value begins
};

}  // namespace braid::ir
