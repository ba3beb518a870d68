#include "frontend/traces/json_scanner.h"

#include <charconv>
#include <cmath>

#include "ir/error_numbers.h"

namespace braid::frontend {

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
  const std::size_t begin = at_ - raw.size();
  // Deeper than any trace; limits the recursion of the parser.
  std::size_t depth = 0, deepest = 0;
  for (char c : raw) {
    if (c == '{' || c == '[') deepest = std::max(deepest, ++depth);
    if ((c == '}' || c == ']') && depth > 0) --depth;
  }
  if (deepest > 256) fail(begin, "nested too deeply");
  try {
    return nlohmann::json::parse(raw);
  } catch (const nlohmann::json::parse_error& e) {
    const std::string what = e.what();
    const std::size_t colon = what.find(": ", what.find("at line"));
    fail(begin + (e.byte > 0 ? e.byte - 1 : 0),
         "not JSON: " + (colon == std::string::npos ? what : what.substr(colon + 2)));
  } catch (const nlohmann::json::exception& e) {
    fail(begin, std::string("not JSON: ") + e.what());
  }
}

ir::Location JsonScanner::location(std::size_t offset) const {
  ir::Location result{.file = file_, .line = 1, .column = 1};
  for (char c : text_.substr(0, std::min(offset, text_.size()))) {
    result.column = c == '\n' ? 1 : result.column + 1;
    result.line += c == '\n' ? 1 : 0;
  }
  return result;
}

void JsonScanner::fail(std::size_t offset, const std::string& message) const {
  ir::user_error(errors::kTraceSyntax, location(offset), message, "record or copy the trace again");
}

TraceEntry::TraceEntry(const JsonScanner& scanner, std::size_t offset, nlohmann::json value)
    : scanner_(&scanner), offset_(offset), value_(std::move(value)) {
  if (!value_.is_object()) fail("an entry of the trace is not an object");
}

void TraceEntry::fail(const std::string& message, const std::string& hint) const {
  ir::user_error(errors::kBadTraceEvent, scanner_->location(offset_), message, hint);
}

const nlohmann::json* TraceEntry::find(std::initializer_list<const char*> keys) const {
  for (const char* key : keys) {
    if (const auto it = value_.find(key); it != value_.end() && !it->is_null()) return &*it;
  }
  return nullptr;
}

std::optional<double> TraceEntry::number(std::initializer_list<const char*> keys) const {
  const nlohmann::json* found = find(keys);
  if (found == nullptr) return std::nullopt;
  double v = 0;
  if (found->is_number()) {
    v = found->get<double>();
  } else if (found->is_string()) {
    const auto& s = found->get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
    if (error != std::errc() || end != s.data() + s.size())
      fail(fmt::format("'{}' is \"{}\", which is not a number", *keys.begin(), s));
  } else {
    fail(fmt::format("'{}' is not a number", *keys.begin()));
  }
  if (!std::isfinite(v) || std::abs(v) > 1e18)
    fail(fmt::format("'{}' is {}, which is out of range", *keys.begin(), v));
  return v;
}

std::optional<std::int64_t> TraceEntry::integer(std::initializer_list<const char*> keys) const {
  const nlohmann::json* found = find(keys);
  if (found == nullptr) return std::nullopt;
  if (found->is_number_integer() &&
      (!found->is_number_unsigned() || found->get<std::uint64_t>() <= INT64_MAX))
    return found->get<std::int64_t>();
  const double v = *number(keys);
  if (v != std::floor(v)) fail(fmt::format("'{}' is {}, which is not an integer", *keys.begin(), v));
  return static_cast<std::int64_t>(v);
}

std::string TraceEntry::string(std::initializer_list<const char*> keys) const {
  const nlohmann::json* found = find(keys);
  if (found == nullptr) return {};
  if (found->is_string()) return found->get<std::string>();
  if (found->is_primitive()) return found->dump();
  fail(fmt::format("'{}' is not a string", *keys.begin()));
}

std::optional<bool> TraceEntry::boolean(std::initializer_list<const char*> keys) const {
  const nlohmann::json* found = find(keys);
  if (found == nullptr) return std::nullopt;
  if (found->is_boolean()) return found->get<bool>();
  return *number(keys) != 0;
}

std::vector<std::uint64_t> TraceEntry::ids(std::initializer_list<const char*> keys) const {
  const nlohmann::json* found = find(keys);
  if (found == nullptr) return {};
  if (!found->is_array()) fail(fmt::format("'{}' is not an array", *keys.begin()));
  std::vector<std::uint64_t> out;
  for (const nlohmann::json& item : *found) {
    const TraceEntry one(*scanner_, offset_, {{*keys.begin(), item}});
    const std::optional<std::int64_t> id = one.integer({*keys.begin()});
    if (!id || *id < 0) fail(fmt::format("'{}' contains {}, which is not an id", *keys.begin(), item.dump()));
    out.push_back(static_cast<std::uint64_t>(*id));
  }
  return out;
}

TraceEntry TraceEntry::object(const char* key) const {
  const nlohmann::json* found = find({key});
  return {*scanner_, offset_, found == nullptr ? nlohmann::json::object() : *found};
}

}  // namespace braid::frontend
