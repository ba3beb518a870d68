#include "codegen/cpp/c_text.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <cmath>
#include <limits>

namespace braid::codegen::cpp {

using ir::DType;
using ir::Expr;
using ir::ExprKind;

std::string identifier(std::string_view name) {
  std::string out;
  for (char c : name) {
    const bool keep = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (keep) out += c;
    else if (!out.empty() && out.back() != '_') out += '_';
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out = "n" + (out.empty() ? "" : "_" + out);
  return out;
}

std::string c_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') (out += '\\') += c;
    else if (u < 0x20 || u >= 0x7f) out += fmt::format("\\{:03o}", u);
    else out += c;
  }
  return out + '"';
}

std::string comment(std::string_view text) {
  std::string out;
  for (char c : text) out += (c == '\n' || c == '\r' || c == '\\') ? ' ' : c;
  return out;
}

std::string storage_type(DType dtype) {
  constexpr std::array<const char*, ir::kDTypeCount> names = {"float",   "double",  "Half",    "BFloat16", "int8_t",   "int16_t", "int32_t",
                                                              "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "bool"};
  return names[static_cast<std::size_t>(dtype)];
}

std::string value_type(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? "float" : storage_type(dtype);
}

std::string abi_dtype(DType dtype) {
  std::string name = "BRAID_";
  for (char c : ir::to_string(dtype)) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string literal(DType dtype, const ir::Literal& value) {
  const std::string type = value_type(dtype);
  if (ir::is_float(dtype)) {
    const double v = std::holds_alternative<double>(value) ? std::get<double>(value) : static_cast<double>(std::get<std::int64_t>(value));
    if (std::isnan(v)) return fmt::format("std::numeric_limits<{}>::quiet_NaN()", type);
    if (std::isinf(v)) return fmt::format("{}std::numeric_limits<{}>::infinity()", v < 0 ? "-" : "", type);
    std::string text = type == "float" ? fmt::format("{}", static_cast<float>(v)) : fmt::format("{}", v);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    if (type == "float") text += 'f';
    return text;
  }
  const std::int64_t v = std::holds_alternative<std::int64_t>(value) ? std::get<std::int64_t>(value) : static_cast<std::int64_t>(std::get<double>(value));
  if (dtype == DType::boolean) return v ? "true" : "false";
  if (dtype == DType::u64) return fmt::format("uint64_t{{{}u}}", static_cast<std::uint64_t>(v));
  if (v == std::numeric_limits<std::int64_t>::min()) return "std::numeric_limits<int64_t>::min()";
  return fmt::format("{}{{{}}}", type, v);
}

namespace {

bool one_token(Expr e) {
  return (e.is_constant() && e.constant() >= 0) || e.kind() == ExprKind::symbol;
}

std::string atom(Expr e, const SymbolText& names, ir::Extents extents) {
  const auto call = [&](const char* function) {
    return fmt::format("{}({}, {})", function, c_expr(e.lhs(), names, extents), c_expr(e.rhs(), names, extents));
  };
  const auto infix = [&](const char* op) {
    return fmt::format("({} {} {})", c_operand(e.lhs(), names, extents), op, c_operand(e.rhs(), names, extents));
  };
  switch (e.kind()) {
    case ExprKind::constant: return fmt::format("{}", e.constant());
    case ExprKind::symbol: return names(e);
    case ExprKind::polynomial: return fmt::format("({})", c_expr(e, names, extents));
    case ExprKind::floor_div: return provably_non_negative(e.lhs(), extents) ? infix("/") : call("floor_div");
    case ExprKind::mod: return provably_non_negative(e.lhs(), extents) ? infix("%") : call("floor_mod");
    case ExprKind::min: return call("smaller");
    case ExprKind::max: return call("larger");
  }
  return {};
}

}  // namespace

std::string c_expr(Expr e, const SymbolText& names, ir::Extents extents) {
  if (e.is_constant()) {
    return e.constant() == std::numeric_limits<std::int64_t>::min() ? "INT64_MIN" : fmt::format("{}", e.constant());
  }
  std::string out;
  // Positive terms first where the expression would begin with a minus.
  for (const ir::Term& term : ir::terms(e)) {
    const std::int64_t c = term.coefficient;
    std::string text;
    for (const Expr& a : term.atoms) {
      if (!text.empty()) text += " * ";
      text += atom(a, names, extents);
    }
    const std::uint64_t size = c < 0 ? 0 - static_cast<std::uint64_t>(c) : static_cast<std::uint64_t>(c);
    if (term.atoms.empty()) text = fmt::format("{}", size);
    else if (size != 1) text += fmt::format(" * {}", size);
    if (out.empty()) out = c < 0 ? "-" + text : text;
    else out += (c < 0 ? " - " : " + ") + text;
  }
  return out;
}

std::string c_operand(Expr e, const SymbolText& names, ir::Extents extents) {
  const std::string text = c_expr(e, names, extents);
  if (one_token(e) || (text.front() == '(' && e.kind() != ExprKind::polynomial)) return text;
  if (e.kind() == ExprKind::min || e.kind() == ExprKind::max) return text;
  return "(" + text + ")";
}

void Writer::line(std::string_view text) {
  if (!text.empty()) {
    // Directives of the preprocessor stand at the margin.
    if (text.front() != '#') text_.append(static_cast<std::size_t>(depth_) * 2, ' ');
    text_ += text;
  }
  text_ += '\n';
}
void Writer::open(std::string_view text) {
  line(text);
  ++depth_;
}
void Writer::close(std::string_view text) {
  --depth_;
  line(text);
}

}  // namespace braid::codegen::cpp
