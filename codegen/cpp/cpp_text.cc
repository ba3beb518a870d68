#include "codegen/cpp/cpp_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "ir/element.h"

namespace braid::codegen::cpp {

using ir::DType;

std::string storage_type(DType dtype) {
  constexpr std::array<const char*, ir::kDTypeCount> names = {
      "float",   "double",  "Half",     "BFloat16", "int8_t",   "int16_t", "int32_t",
      "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "bool"};
  return names[static_cast<std::size_t>(byte_type(dtype))];
}

std::string value_type(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? "float" : storage_type(dtype);
}

std::string literal(DType dtype, const ir::Literal& value) {
  const std::string type = value_type(dtype);
  if (ir::is_float(dtype)) {
    // Texts may hold more digits than the type has.
    const double v = ir::round_to(dtype, std::holds_alternative<double>(value)
                                             ? std::get<double>(value)
                                             : static_cast<double>(std::get<std::int64_t>(value)));
    if (std::isnan(v)) return fmt::format("std::numeric_limits<{}>::quiet_NaN()", type);
    if (std::isinf(v)) return fmt::format("{}std::numeric_limits<{}>::infinity()", v < 0 ? "-" : "", type);
    std::string text = type == "float" ? fmt::format("{}", static_cast<float>(v)) : fmt::format("{}", v);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    if (type == "float") text += 'f';
    return text;
  }
  const std::int64_t v = std::holds_alternative<std::int64_t>(value)
                             ? std::get<std::int64_t>(value)
                             : static_cast<std::int64_t>(std::get<double>(value));
  if (dtype == DType::boolean) return v ? "true" : "false";
  if (dtype == DType::u64) return fmt::format("uint64_t{{{}u}}", static_cast<std::uint64_t>(v));
  if (v == std::numeric_limits<std::int64_t>::min()) return "std::numeric_limits<int64_t>::min()";
  return fmt::format("{}{{{}}}", type, v);
}

CExprStyle expr_style(SymbolText symbol, ir::Extents extents) {
  return {.symbol = std::move(symbol),
          .extents = {extents.begin(), extents.end()},
          .functions = {"floor_div", "floor_mod", "smaller", "larger"},
          .coefficient_last = true,
          .quotients_bracketed = true};
}

void Writer::line(std::string_view text) {
  if (!text.empty()) {
    // Preprocessor directives begin in the first column.
    if (text.front() != '#') text_.append(static_cast<std::size_t>(depth_) * 2, ' ');
    text_ += text;
  }
  text_ += '\n';
}
void Writer::wrapped(std::string_view statement) {
  text_ += codegen::wrapped(statement, static_cast<std::size_t>(depth_) * 2);
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
