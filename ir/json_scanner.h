// Reads JSON texts element by element: errors have line and column, and a user of a large text has only one
// element at a time in memory as a value.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "ir/error.h"

namespace braid::ir {

class JsonScanner {
 public:
  // Values nested deeper than `deepest` are refused, which limits the recursion of the parser. Syntax errors
  // are user errors `code` with this hint. The text must outlive the scanner.
  JsonScanner(std::string_view text, std::string file, std::size_t deepest, int code, std::string hint = {})
      : text_(text), file_(std::move(file)), deepest_(deepest), code_(code), hint_(std::move(hint)) {}

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

  bool too_deep(std::string_view part) const;
  // Parses a part of the text.
  nlohmann::json parse(std::string_view part) const;
  Location location(std::size_t offset) const;
  [[noreturn]] void fail(std::size_t offset, const std::string& message) const;

 private:
  std::string_view text_;
  std::string file_;
  std::size_t deepest_;
  int code_;
  std::string hint_;
  std::size_t at_ = 0;
};

}  // namespace braid::ir
