// Reads large JSON texts element by element: errors have line and column, and only one element at a time is
// in memory as a value.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/error.h"

namespace braid::frontend {

class JsonScanner {
 public:
  JsonScanner(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  // The next non-blank character; '\0' at the end.
  char peek();
  // Consumes `c` or fails with "expected 'c'".
  void expect(char c);
  bool take(char c);  // consumes it if it is next
  std::string string();
  // Skips a value by matching brackets and strings only.
  std::string_view raw_value();
  nlohmann::json value();  // and parses it
  std::size_t offset() const { return at_; }

  ir::Location location(std::size_t offset) const;
  [[noreturn]] void fail(std::size_t offset, const std::string& message) const;  // 561

 private:
  std::string_view text_;
  std::string file_;
  std::size_t at_ = 0;
};

// One object of a trace; `fail` raises 562 at its position. Numbers may be quoted, as protobuf writes 64-bit
// integers.
class TraceEntry {
 public:
  TraceEntry(const JsonScanner& scanner, std::size_t offset, nlohmann::json value);

  // The value of the first of these keys that is present. Wrong types and ranges fail.
  std::optional<double> number(std::initializer_list<const char*> keys) const;
  std::optional<std::int64_t> integer(std::initializer_list<const char*> keys) const;
  std::string string(std::initializer_list<const char*> keys) const;  // "" if absent
  std::optional<bool> boolean(std::initializer_list<const char*> keys) const;
  std::vector<std::uint64_t> ids(std::initializer_list<const char*> keys) const;
  const nlohmann::json* find(std::initializer_list<const char*> keys) const;
  // The object under this key, an empty one if there is none.
  TraceEntry object(const char* key) const;
  std::size_t offset() const { return offset_; }
  [[noreturn]] void fail(const std::string& message, const std::string& hint = {}) const;

 private:
  const JsonScanner* scanner_;
  std::size_t offset_;
  nlohmann::json value_;
};

}  // namespace braid::frontend
