#include "ir/text_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace braid::ir {
namespace {

// Locale-free.
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '.';
  });
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (u < 0x20 || u == 0x7f) {
      out += fmt::format("\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string name_text(std::string_view name) {
  return is_plain_name(name) ? std::string(name) : in_quotes(name);
}

std::string dim_text(std::string_view name) {
  const bool index = name.size() > 1 && name[0] == 'i' && std::all_of(name.begin() + 1, name.end(), is_digit);
  const bool function = name == "floordiv" || name == "ceildiv" || name == "mod" || name == "min" ||
                        name == "max" || name == "rank";
  return index || function ? in_quotes(name) : name_text(name);
}

}  // namespace braid::ir
