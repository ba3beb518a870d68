#include "frontend/traces/trace_entry.h"

#include <charconv>
#include <cmath>

#include "ir/error.h"
#include "ir/error_numbers.h"

namespace braid::frontend {

JsonScanner trace_scanner(std::string_view text, const std::string& file) {
  constexpr std::size_t kDeepest = 256;  // deeper than any trace
  return {text, file, kDeepest, errors::kTraceSyntax, "record or copy the trace again"};
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
