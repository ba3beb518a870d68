// The objects of recorded traces, read from large JSON texts.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/json_scanner.h"

namespace braid::frontend {

using ir::JsonScanner;

// Its syntax errors are 561.
JsonScanner trace_scanner(std::string_view text, const std::string& file);

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
