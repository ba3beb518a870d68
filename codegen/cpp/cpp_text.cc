#include "codegen/cpp/cpp_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace braid::codegen::cpp {

using ir::DType;

std::string storage_type(DType dtype) {
  constexpr std::array<const char*, ir::kDTypeCount> names = {
      "float",   "double",  "Half",     "BFloat16", "int8_t",   "int16_t", "int32_t",
      "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "bool"};
  return names[static_cast<std::size_t>(dtype)];
}

std::string value_type(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 ? "float" : storage_type(dtype);
}

std::string literal(DType dtype, const ir::Literal& value) {
  const std::string type = value_type(dtype);
  if (ir::is_float(dtype)) {
    const double v = std::holds_alternative<double>(value)
                         ? std::get<double>(value)
                         : static_cast<double>(std::get<std::int64_t>(value));
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
    // Directives of the preprocessor stand at the margin.
    if (text.front() != '#') text_.append(static_cast<std::size_t>(depth_) * 2, ' ');
    text_ += text;
  }
  text_ += '\n';
}
void Writer::wrapped(std::string_view statement) {
  constexpr std::size_t kColumns = 110;
  if (statement.starts_with("//") || statement.starts_with("#")) return line(statement);
  const std::size_t inside = statement.find_first_not_of(' ');
  std::string indent;
  while (indent.size() + 2 * static_cast<std::size_t>(depth_) + statement.size() > kColumns) {
    const std::size_t room = kColumns - 2 * static_cast<std::size_t>(depth_) - indent.size();
    // The last comma that fits in the fewest brackets, where it leaves a line that is at least half full.
    std::vector<std::size_t> last;  // by depth
    std::size_t depth = 0;
    bool quoted = false;
    for (std::size_t k = 0; k + 1 < statement.size() && k < room; ++k) {
      const char c = statement[k];
      if (c == '"' && (k == 0 || statement[k - 1] != '\\')) quoted = !quoted;
      if (quoted) continue;
      if (c == '(' || c == '{' || c == '[') ++depth;
      if ((c == ')' || c == '}' || c == ']') && depth > 0) --depth;
      if (c != ',' || statement[k + 1] != ' ') continue;
      if (last.size() <= depth) last.resize(depth + 1, 0);
      last[depth] = k + 1;
    }
    const auto half_full =
        std::find_if(last.begin(), last.end(), [&](std::size_t k) { return 2 * k >= room; });
    const std::size_t cut = half_full != last.end() ? *half_full
                            : last.empty()          ? 0
                                                    : *std::max_element(last.begin(), last.end());
    if (cut == 0) break;
    line(indent + std::string(statement.substr(0, cut)));
    statement.remove_prefix(cut + 1);
    indent.assign((inside == std::string_view::npos ? 0 : inside) + 4, ' ');
  }
  line(indent + std::string(statement));
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
