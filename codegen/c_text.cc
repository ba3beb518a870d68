#include "codegen/c_text.h"

#include <fmt/format.h>

#include <cctype>
#include <cstddef>
#include <cstdint>

#include "ir/element.h"

namespace braid::codegen {

std::string c_identifier(std::string_view name) {
  std::string out;
  for (char c : name) {
    const bool good = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (good) {
      out += c;
    } else if (!out.empty() && out.back() != '_') {
      out += '_';
    }
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  if (out.empty()) return "n";
  if (std::isdigit(static_cast<unsigned char>(out[0])) != 0) out.insert(0, "n_");
  return out;
}

std::string dim_identifier(ir::Expr dim) {
  const std::string& name = dim.dim_name();
  const std::string text = c_identifier(name);
  if (text == name) return "dim_" + text;
  return fmt::format("dimension_{}_{:016x}", text,
                     ir::fnv1a(reinterpret_cast<const std::byte*>(name.data()), name.size()));
}

std::string c_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20 || u >= 0x7f) {
      out += fmt::format("\\{:03o}", u);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string c_comment(std::string_view text) {
  std::string out;
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    out += u < 0x20 || u == 0x7f || c == '\\' ? ' ' : c;
  }
  return out;
}

std::string abi_dtype(ir::DType dtype) {
  std::string name = "BRAID_";
  for (char c : ir::to_string(dtype)) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string CNames::unique(std::string_view wanted) {
  std::string name(wanted);
  for (int k = 2; !taken_.insert(name).second; ++k) name = fmt::format("{}_{}", wanted, k);
  return name;
}

}  // namespace braid::codegen
