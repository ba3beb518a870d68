#include "ir/json_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace braid::ir {

char JsonScanner::peek() {
  while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

void JsonScanner::expect(char c) {
  if (!take(c)) {
    fail(at_, at_ == text_.size() ? fmt::format("expected '{}', got the end of the text", c)
                                  : fmt::format("expected '{}', got '{}'", c, text_[at_]));
  }
}

bool JsonScanner::take(char c) {
  if (peek() != c || at_ == text_.size()) return false;
  ++at_;
  return true;
}

std::string JsonScanner::string() {
  if (peek() != '"') expect('"');
  const nlohmann::json parsed = value();
  return parsed.get<std::string>();
}

std::string_view JsonScanner::raw_value() {
  if (peek() == '\0') fail(at_, "expected a value, got the end of the text");
  const std::size_t begin = at_;
  std::vector<char> closers;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      const std::size_t quote = at_++;
      while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
      if (at_ >= text_.size()) fail(quote, "the string does not end");
      ++at_;
    } else if (c == '{' || c == '[') {
      closers.push_back(c == '{' ? '}' : ']');
      ++at_;
    } else if (c == '}' || c == ']') {
      if (closers.empty()) break;  // closes the container of this value
      if (closers.back() != c) fail(at_, fmt::format("expected '{}', got '{}'", closers.back(), c));
      closers.pop_back();
      ++at_;
    } else if (closers.empty() && (c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
      break;
    } else {
      ++at_;
    }
    if (closers.empty() && (c == '"' || c == '}' || c == ']')) break;
  }
  if (!closers.empty()) {
    fail(begin, fmt::format("the text ends before the '{}' of this value", closers.front()));
  }
  if (at_ == begin) fail(at_, fmt::format("expected a value, got '{}'", text_[at_]));
  return text_.substr(begin, at_ - begin);
}

nlohmann::json JsonScanner::value() {
  const std::string_view raw = raw_value();
  if (too_deep(raw)) fail(at_ - raw.size(), "nested too deeply");
  return parse(raw);
}

bool JsonScanner::too_deep(std::string_view part) const {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t k = 0; k < part.size(); ++k) {
    if (quoted) {
      if (part[k] == '\\')
        ++k;
      else if (part[k] == '"')
        quoted = false;
    } else if (part[k] == '"') {
      quoted = true;
    } else if (part[k] == '{' || part[k] == '[') {
      if (++depth > deepest_) return true;
    } else if ((part[k] == '}' || part[k] == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

nlohmann::json JsonScanner::parse(std::string_view part) const {
  try {
    return nlohmann::json::parse(part);
  } catch (const nlohmann::json::exception& e) {
    const auto* parse = dynamic_cast<const nlohmann::json::parse_error*>(&e);
    const std::size_t byte = parse ? parse->byte : 0;
    const std::string what = e.what();
    const std::size_t colon = what.find(": ", what.find("at line"));
    fail(static_cast<std::size_t>(part.data() - text_.data()) + (byte > 0 ? byte - 1 : 0),
         "not JSON: " + (colon == std::string::npos ? what : what.substr(colon + 2)));
  }
}

Location JsonScanner::location(std::size_t offset) const {
  Location result{.file = file_, .line = 1, .column = 1};
  for (char c : text_.substr(0, std::min(offset, text_.size()))) {
    result.column = c == '\n' ? 1 : result.column + 1;
    result.line += c == '\n' ? 1 : 0;
  }
  return result;
}

void JsonScanner::fail(std::size_t offset, const std::string& message) const {
  user_error(code_, location(offset), message, hint_);
}

}  // namespace braid::ir
